"""Finds the service and the API key for it.

`gradebox serve` writes a note about each running service to the user's files, so that a client on the same machine
finds the API key that belongs to a URL. A key found this way is sent only to this machine, and only to a service of the
user who owns the key's file: after that service has stopped, any other user's process may listen on its port.
"""

import json
import os
import struct
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradebox.errors import GradeboxError, NotOurs
from gradebox.key_file import KEY_FILE

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8000"
_LOOK_S = 1.0
_LISTENS = "0A"
_SOCKETS = Path("/proc/net")


class Note(NamedTuple):
    """The URL and the data folder of a running service, written for clients on its machine."""

    url: str
    data_dir: Path


class FoundKey(NamedTuple):
    """An API key and the user id of its service's owner; the owner is None for a key given explicitly."""

    secret: str
    owner: int | None = None
    file: Path | None = None


class Listeners:
    """The processes that listen on a local service's port. Queries the kernel at most once a second."""

    def __init__(self, url: str, owner: int) -> None:
        parsed = _parsed(url)
        self._url = url
        self._port = parsed.port or (443 if parsed.scheme == "https" else 80)
        self._address = None if is_local(url) else parsed.host
        self._owner = owner
        self._looked_at = float("-inf")
        self._is_there = False

    def forget(self) -> None:
        """Discard the cached result, so that the next `check` queries the kernel."""
        self._looked_at = float("-inf")

    def check(self) -> bool:
        """Return whether the service listens.

        Raises:
            NotOurs: another user's process listens on the port, or this system does not show whose it is.
        """
        now = time.monotonic()
        if now > self._looked_at + _LOOK_S:
            self._is_there = self._look()
            self._looked_at = now
        return self._is_there

    def _look(self) -> bool:
        if not _SOCKETS.exists():
            raise NotOurs(
                f"the API key that was found for {self._url} was not sent: only Linux shows whose process listens "
                "there. Name the key with GRADEBOX_API_KEY"
            )
        found = _listening(self._port)
        others = {user for _, user in found} - {self._owner, 0}  # root can read the key anyway
        if others:
            raise NotOurs(
                f"a process of another user (number {min(others)}) listens on port {self._port}, so nothing was "
                f"sent to {self._url}: the API key that was found for it is of user {self._owner}. Start your service "
                "on another port, or name the key that is meant with GRADEBOX_API_KEY"
            )
        return any(self._address in (None, address) for address, _ in found)


def data_dir() -> Path:
    """The service's data folder: GRADEBOX_DATA_DIR, or the platform's default for user data."""
    named = os.environ.get("GRADEBOX_DATA_DIR")
    return Path(named) if named else _user_folder("XDG_DATA_HOME", ".local/share")


def service_url(url: str | None) -> str:
    """The given URL, else GRADEBOX_URL, else the default; without a trailing slash."""
    return (url or os.environ.get("GRADEBOX_URL") or DEFAULT_URL).rstrip("/")


def find_key(url: str) -> FoundKey | None:
    """The API key for the service at this URL: GRADEBOX_API_KEY, or the key file of a service on this machine."""
    named = os.environ.get("GRADEBOX_API_KEY")
    if named:
        return FoundKey(named)
    noted = read_note(_parsed(url).port or 80)
    if not is_local(url) and (noted is None or noted.url != url):
        return None
    return next((key for key in map(_read_key, _folders(noted)) if key), None)


def key_folders(url: str) -> list[Path]:
    """The data folders on this machine that are searched for the key of the service at this URL."""
    return _folders(read_note(_parsed(url).port or 80)) if is_local(url) else []


def _folders(noted: Note | None) -> list[Path]:
    folders = [data_dir()]
    if noted is not None and "GRADEBOX_DATA_DIR" not in os.environ:
        folders.insert(0, noted.data_dir)
    return folders


def is_local(url: str) -> bool:
    """Return whether the URL's host is a loopback address of this machine."""
    host = _parsed(url).host
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parsed(url: str) -> "httpx.URL":
    import httpx  # `gradebox serve` starts faster without it

    return httpx.URL(url)


def write_note(port: int, note: Note) -> Path:
    """Write the note of a service that is ready; returns its path, which the service removes when it stops."""
    path = _note_file(port)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(json.dumps({"url": note.url, "data_dir": str(note.data_dir)}))
    return path


def read_note(port: int) -> Note | None:
    """The note of the service that listens on this port, if there is one."""
    try:
        value = json.loads(_note_file(port).read_text())
        return Note(value["url"], Path(value["data_dir"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note_file(port: int) -> Path:
    return _user_folder("XDG_STATE_HOME", ".local/state") / "services" / f"{port}.json"


def _read_key(folder: Path) -> FoundKey | None:
    try:
        with (folder / KEY_FILE).open() as file:
            secret = file.read().strip()
            return FoundKey(secret, os.fstat(file.fileno()).st_uid, folder / KEY_FILE) if secret else None
    except OSError:
        return None


def _listening(port: int) -> list[tuple[str, int]]:
    """The address and user id of each socket that listens on a port of this machine; none if there is no /proc."""
    return [*_listening_in(_SOCKETS / "tcp", IPv4Address, port), *_listening_in(_SOCKETS / "tcp6", IPv6Address, port)]


def _listening_in(table: Path, kind: type[IPv4Address] | type[IPv6Address], port: int) -> Iterator[tuple[str, int]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        _, local, _, state, _, _, _, user, *_ = line.split()
        address, _, local_port = local.partition(":")
        if state == _LISTENS and int(local_port, 16) == port:
            words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
            yield str(kind(struct.pack(f"={len(words)}I", *words))), int(user)


def _user_folder(variable: str, below_home: str) -> Path:
    named = os.environ.get(variable)
    try:
        return (Path(named) if named else Path.home() / below_home) / "gradebox"
    except RuntimeError as error:
        raise GradeboxError(
            "this user has no home folder, where a service's data folder and API key are looked for: set HOME, or "
            "GRADEBOX_API_KEY for a client"
        ) from error
