"""The data folder of a service. One service uses it at a time."""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gradebox.errors import CannotServe

SOCKET_PATH_BYTES = 100  # the kernel's limit is 107; Redis appends to the path while it starts
LAST_ONE_ENDS_S = 10.0


@dataclass(frozen=True)
class DataFolder:
    """A data folder whose lock this process holds.

    Attributes:
        lock: the lock's file descriptor. Redis inherits it: if this process is killed, the folder stays locked until
            that Redis has exited.
        sockets: the folder of the Redis socket: the data folder itself, unless its path is too long for a socket.
    """

    path: Path
    lock: int
    sockets: Path

    @property
    def redis(self) -> Path:
        """The folder of Redis' append-only file."""
        return self._folder("redis")

    def log(self, name: str) -> Path:
        """The log of a process."""
        return self._folder("logs") / f"{name}.log"

    @property
    def asking(self) -> Path:
        """A file that exists once a batch with graders that ask was sent."""
        return self.path / "asking"

    @property
    def registering(self) -> Path:
        """A file that exists until the models and endpoints of the command line are registered."""
        return self.path / "registering"

    @property
    def metrics(self) -> Path:
        """The folder to which workers write their metrics for the API."""
        return self._folder("metrics")

    def forget_metrics(self) -> None:
        """Removes the metrics of the workers of an earlier start."""
        for path in self.metrics.glob("*.prom*"):
            path.unlink()

    def forget_logs(self, but: Collection[Path]) -> None:
        """Removes the logs of processes that this service does not have, such as those of a start with more workers."""
        kept = {path.name for log in but for path in (log, log.with_suffix(".log.1"))}
        for path in self._folder("logs").glob("*.log*"):
            if path.name not in kept:
                path.unlink()

    def close_to_others(self) -> None:
        """Removes other users' access to the existing folders. New folders are created without it.

        Raises:
            CannotServe: a folder belongs to another user.
        """
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & stat.S_ISVTX:  # in a sticky folder such as /tmp, no other user can replace a folder of ours
            _change_mode(self.path, mode & ~0o022)
        for name in ("logs", "metrics", "redis", "spool"):
            if (path := self.path / name).exists():
                _change_mode(path, 0o700)

    def _folder(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(exist_ok=True, mode=0o700)
        return path


@contextmanager
def hold(path: Path) -> Iterator[DataFolder]:
    """Creates the folder if it does not exist, and locks it for this process.

    Raises:
        CannotServe: another service uses the folder, or it cannot be written.
    """
    path = path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CannotServe(
            f"the data folder {path} cannot be written ({error.strerror}): name another with --data-dir"
        ) from error
    sockets = path
    try:
        _take(lock, path)
        if len(os.fsencode(path / "redis.sock")) > SOCKET_PATH_BYTES:
            sockets = _short_folder(path)
        folder = DataFolder(path, lock, sockets)
        folder.close_to_others()
        yield folder
    finally:
        os.close(lock)
        if sockets != path:
            shutil.rmtree(sockets, ignore_errors=True)


def _short_folder(path: Path) -> Path:
    """A folder with a short path that no other user can enter. Its name is always the same for the data folder `path`,
    so that a killed service leaves no more than one.
    """
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"gradebox-{name}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    there = folder.lstat()
    if there.st_uid == os.geteuid() and there.st_mode == stat.S_IFDIR | 0o700:
        return folder
    return Path(tempfile.mkdtemp(prefix="gradebox-"))  # another user has the name


def _change_mode(path: Path, mode: int) -> None:
    """Changes the mode. Also checks the owner of a link itself, since another user's link may lead anywhere."""
    is_link = path.is_symlink()
    if stat.S_IMODE(path.stat().st_mode) == mode and not is_link:
        return
    if any(found.st_uid != os.geteuid() for found in (path.lstat(), path.stat())):
        raise CannotServe(
            f"{path} belongs to another user and cannot be closed to others: "
            f"run the service as its owner, or name another folder with --data-dir"
        )
    path.chmod(mode)


def _take(lock: int, path: Path) -> None:
    deadline = time.monotonic() + LAST_ONE_ENDS_S
    while not _locked(lock):
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
        if _alive(holder) or time.monotonic() > deadline:
            raise CannotServe(
                f"another gradebox service (process {holder}) uses {path}: "
                "stop it, or name another folder with --data-dir"
            )
        time.sleep(0.05)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alive(pid: str) -> bool:
    return pid.isdecimal() and Path("/proc", pid).exists()
