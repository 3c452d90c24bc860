"""Where the service is, and which key opens it.

`gradebox serve` leaves a note of each running service among the user's own files, so that a client on the same machine
finds the API key that belongs to a URL. A key that was found so is only ever sent to this machine.
"""

import json
import os
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import httpx

DEFAULT_URL = "http://127.0.0.1:8000"
KEY_FILE = "api-key"


class Note(NamedTuple):
    """What a running service leaves for clients on its machine."""

    url: str
    data_dir: Path


def data_dir() -> Path:
    """The service's data folder: GRADEBOX_DATA_DIR, or the platform's place for a user's data."""
    named = os.environ.get("GRADEBOX_DATA_DIR")
    return Path(named) if named else _user_folder("XDG_DATA_HOME", ".local/share")


def service_url(url: str | None) -> str:
    """The URL that was given, else GRADEBOX_URL, else the default; without a slash at its end."""
    return (url or os.environ.get("GRADEBOX_URL") or DEFAULT_URL).rstrip("/")


def find_key(url: str) -> str | None:
    """The API key for the service at this URL: GRADEBOX_API_KEY, or what a service on this machine left."""
    named = os.environ.get("GRADEBOX_API_KEY")
    if named:
        return named
    noted = read_note(httpx.URL(url).port or 80)
    if not is_local(url) and (noted is None or noted.url != url):
        return None
    folders = [data_dir()]
    if noted is not None and "GRADEBOX_DATA_DIR" not in os.environ:
        folders.insert(0, noted.data_dir)
    return next((key for key in map(_read_key, folders) if key), None)


def is_local(url: str) -> bool:
    """True for the loopback addresses of this machine."""
    host = httpx.URL(url).host
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def write_note(port: int, note: Note) -> Path:
    """Leaves the note of a service that is ready; returns its file, which the service removes when it stops."""
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


def _read_key(folder: Path) -> str | None:
    try:
        return (folder / KEY_FILE).read_text().strip()
    except OSError:
        return None


def _user_folder(variable: str, below_home: str) -> Path:
    named = os.environ.get(variable)
    return (Path(named) if named else Path.home() / below_home) / "gradebox"
