"""Folders that several processes of a machine make, use and remove: copies of the image, and environments."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox.errors import IsolationUnavailable

NEW = ".new-"
STALE_S = 3600.0  # what a process makes is locked by then
_LOCK = ".lock"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(folder: Path) -> None:
    """Creates a folder and its missing parents, readable by the users that sandboxes run as, whatever the umask."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(0o755)


def check_owner(folder: Path) -> None:
    """Raises IsolationUnavailable if users other than this one could change the content of a folder."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise IsolationUnavailable(
            f"{folder} could be changed by others: it must belong to you and be writable by you alone. "
            f"Run `chmod go-w {folder}`, or name another folder with GRADEBOX_IMAGE_DIR."
        )


def made_once(target: Path, make: Callable[[Path], None], lock: str = _LOCK) -> Path:
    """Returns the folder `target`, which `make` fills if it does not exist.

    It appears whole or not at all. One process at a time makes what has the same `lock`.
    """
    if target.is_dir():
        return target
    with locked(target.parent, lock):
        if not target.is_dir():
            with temporary_folder(target.parent, NEW) as new:
                content = new / "content"
                content.mkdir()
                make(content)
                content.chmod(0o755)
                content.rename(target)
    return target


@contextmanager
def locked(folder: Path, name: str = _LOCK) -> Iterator[None]:
    """Prevents other processes that lock the same name from making or removing anything in a folder."""
    with (folder / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Creates a folder and removes it afterwards with `rm`, however deep its content: shutil stops at Python's
    recursion limit.
    """
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    try:
        with in_use(folder):
            yield folder
    finally:
        subprocess.run(["rm", "-rf", "--", folder], check=False)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keeps other processes from removing a folder by `set_aside`. The kernel releases the lock of a killed process.

    Raises:
        FileNotFoundError: another process has removed it.
    """
    lock = os.open(folder, _FOLDER)
    try:
        with suppress(OSError):  # on a file system without such locks, `set_aside` fails too
            fcntl.flock(lock, fcntl.LOCK_SH)
        if not os.path.samestat(os.fstat(lock), folder.stat()):
            raise FileNotFoundError(folder)
        yield
    finally:
        os.close(lock)


def set_aside(folder: Path, aside: Path) -> bool:
    """Moves a folder below `aside`, to be removed there: one that is partly removed must never be taken for a complete
    one. Returns False if a process uses it, or has just removed it.
    """
    try:
        lock = os.open(folder, _FOLDER)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.rename(aside / folder.name)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def open_to_read(target: Path) -> None:
    """Makes a tree readable by the user that a sandbox runs as, whatever the umask, and writable by its owner only."""
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


class Seen:
    """Folders of this machine that a sandbox sees. They may be removed while it lives, for example with `~/.cache`."""

    def __init__(self, *folders: Path) -> None:
        """Raises OSError if one does not exist."""
        self._folders = [(folder, folder.stat()) for folder in folders]

    def are_there(self) -> bool:
        """Whether all of them still exist. Others of the same names do not count."""
        try:
            return all(os.path.samestat(folder.stat(), before) for folder, before in self._folders)
        except OSError:
            return False
