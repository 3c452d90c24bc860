"""Environments on this machine: the packages of each one in a folder, which sandboxes see read-only.

A folder is made once, from an archive, and is named by the SHA-256 of that archive. All sandboxes of one environment
see the same folder, so the kernel caches its pages once.
"""

import ctypes
import hashlib
import math
import os
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sandbox import shared_folders
from sandbox.errors import InfrastructureError, IsolationUnavailable, Unusable
from sandbox.limits import ENVIRONMENT_FILES, MIB
from sandbox.settings import SandboxSettings

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The Python version of the sandboxes of this machine."""
MARK = ".gradebox-environment"  # a file of each environment: the Python and machine it was built for
DATA = ".data"  # the folder of an environment with its data
BUILT_FOR = f"{sys.implementation.cache_tag} {os.uname().machine}"
_STAGED = ".build-"
_HASH = re.compile("[0-9a-f]{64}")
_NAME = re.compile(rf"{_HASH.pattern}|{re.escape(_STAGED)}\w+")
_TOUCH_S = 3600.0
_UNUSED_S = 14 * 24 * 3600.0  # a folder unused for this long is removed: it can be made again
_DELETED_S = 24 * 3600.0  # the same, if its environment was deleted
_ANEW = "update the environment with the same packages, which builds it anew, then name the new build in its graders"
_LOCK = ".lock-"  # prefix; followed by the name of the environment being made
_LOCK_S = 24 * 3600.0  # after which a lock file is removed: nothing takes this long to make

_libc = ctypes.CDLL(None, use_errno=True)

Fetch = Callable[[str], IO[bytes]]
"""Opens the archive with this SHA-256. Raises FileNotFoundError if there is none."""
NoteDamage = Callable[[str], None]
"""Records that the archive with this SHA-256 has other content."""


class EnvironmentFolders:
    """The environment folders of this machine. Safe to use from several threads and processes."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.folder = (settings.environments_dir or settings.image_dir / "environments").absolute()
        self.most_mb = settings.environment_mb
        self._fetch: Fetch | None = None
        self._note_damage: NoteDamage = lambda _: None

    def fetch_from(self, fetch: Fetch, note_damage: NoteDamage) -> None:
        """Sets the source of archives. Without one, only existing folders can be found."""
        self._fetch, self._note_damage = fetch, note_damage

    def find(self, sha256: str) -> Path:
        """Returns the folder of an environment; makes it if it does not exist.

        Raises:
            Unusable: its archive does not exist or is damaged, or it was built for another Python than this machine's.
            InfrastructureError: the name is invalid, or the folder cannot be made.
        """
        if not _NAME.fullmatch(sha256):
            raise InfrastructureError(f"{sha256[:80]!r} is not the name of an environment")
        folder = self.folder / sha256
        try:
            if not folder.is_dir():
                self._prepare()
                # One lock per environment, so that a small one does not wait for a large one.
                shared_folders.made_once(folder, lambda target: self._unpack(sha256, target), _LOCK + sha256)
            for own in (self.folder, folder):
                shared_folders.check_owner(own)
            self.note_use(sha256)
            built_for = (folder / MARK).read_text()
        except (OSError, IsolationUnavailable, tarfile.TarError) as error:
            raise InfrastructureError(f"the packages of an environment cannot be unpacked here: {error}") from error
        if built_for != BUILT_FOR:
            raise Unusable(
                f"an environment was built for {built_for} and the sandboxes of this machine have {BUILT_FOR}: {_ANEW}"
            )
        return folder

    def note_use(self, sha256: str) -> None:
        """Records a use, which keeps an environment for two more weeks. Raises OSError if it does not exist."""
        folder = self.folder / sha256
        if time.time() - folder.stat().st_mtime > _TOUCH_S:
            os.utime(folder)

    def temporary(self) -> AbstractContextManager[Path]:
        """Creates a folder beside the environments, and removes it afterwards."""
        return shared_folders.temporary_folder(self.folder, _STAGED)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Creates a folder for a build, readable by sandboxes; `find` finds it by its name. It is removed afterwards,
        unless it was adopted.
        """
        self._prepare()
        with self.temporary() as staged:
            staged.chmod(0o755)
            yield staged

    def adopt(self, staged: Path, sha256: str) -> None:
        """Makes a folder that was built here the folder of an environment, so that it need not be unpacked again."""
        _sync(staged)  # as in `_unpack`
        with shared_folders.locked(self.folder, _LOCK + sha256):
            if not (self.folder / sha256).is_dir():
                staged.rename(self.folder / sha256)

    def sweep(self, is_needed: Callable[[str], bool] = lambda _: True) -> list[str]:
        """Removes the folders unused for two weeks and the remains of interrupted builds. An environment for which
        `is_needed` is false is removed after a day without use. Returns the names of the folders.
        """
        if not self.folder.is_dir():
            return []
        swept = []
        with shared_folders.locked(self.folder), self.temporary() as aside:
            for path in self.folder.iterdir():
                with suppress(FileNotFoundError):  # another process has just removed its staging folder
                    age_s = time.time() - path.stat().st_mtime
                    if path.name.startswith(_LOCK):
                        if age_s > _LOCK_S:
                            path.unlink()
                    elif age_s > _kept_s(path.name, is_needed) and shared_folders.set_aside(path, aside):
                        swept.append(path.name)
        return swept

    def _prepare(self) -> None:
        try:
            shared_folders.make_folder(self.folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{self.folder} (GRADEBOX_ENVIRONMENTS_DIR)") from error
        shared_folders.check_owner(self.folder)

    def _unpack(self, sha256: str, target: Path) -> None:
        """Unpacks files and nothing else, within the limits that builds have.

        Raises:
            Unusable: the archive does not exist, or does not match its name.
            OSError: the archive cannot be read, holds something else than files, or exceeds a limit.
        """
        if self._fetch is None:
            raise FileNotFoundError("no archives can be fetched by this process")
        try:
            fetched = self._fetch(sha256)
        except FileNotFoundError as error:
            raise Unusable(f"the packages of an environment are gone from the service's storage: {_ANEW}") from error
        with fetched as archive:
            hashed = Hashed(archive)
            try:
                self._extract(hashed, sha256, target)
            finally:  # damage may be why it cannot be unpacked
                while hashed.read(MIB):
                    pass
                if hashed.sha256 != sha256:
                    self._note_damage(sha256)
                    raise Unusable(
                        f"the packages of an environment were changed or cut off in the service's storage: {_ANEW}"
                    )
        shared_folders.open_to_read(target)
        _sync(target)  # otherwise a power failure may leave the folder's name with empty files in it

    def _extract(self, archive: Any, sha256: str, target: Path) -> None:
        """Raises OSError or tarfile.TarError as `_unpack` describes. tarfile only reads from a stream."""
        files = size = 0
        with tarfile.open(fileobj=archive, mode="r|") as packed:
            for member in packed:
                files, size = files + 1, size + member.size
                if not member.isreg() or files > ENVIRONMENT_FILES or size > self.most_mb * MIB:
                    raise OSError(
                        f"the archive {sha256} holds something other than files, or more than "
                        f"GRADEBOX_ENVIRONMENT_MB ({self.most_mb} MiB) or {ENVIRONMENT_FILES} files"
                    )
                packed.extract(member, target, set_attrs=False, filter="data")


def _kept_s(name: str, is_needed: Callable[[str], bool]) -> float:
    """How long a folder of this name stays without use. What others have put here stays for ever."""
    if _HASH.fullmatch(name):
        return _UNUSED_S if is_needed(name) else _DELETED_S
    return shared_folders.STALE_S if name.startswith((_STAGED, shared_folders.NEW)) else math.inf


def _sync(folder: Path) -> None:
    """Writes the disk of a folder. `os.sync` would also wait for every other one, such as a network disk that does not
    answer.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(opened):
            raise OSError(ctypes.get_errno(), "the disk cannot be written", str(folder))
    finally:
        os.close(opened)


class Hashed:
    """A file that is read or written once, and hashed meanwhile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes."""
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def write(self, data: bytes) -> int:
        """Writes the next bytes."""
        self._hash.update(data)
        return self._file.write(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far, in hexadecimal."""
        return self._hash.hexdigest()
