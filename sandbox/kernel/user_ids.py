"""User ids of sandboxes. No two living sandboxes have the same id, whichever process of the service made them.

What processes of one id may do to each other, and what the kernel counts by user, then concerns only one sandbox.
"""

import errno
import fcntl
import os
import secrets
import struct
import threading
from pathlib import Path

from sandbox.errors import InfrastructureError, IsolationUnavailable

USER_IDS = 50_000  # per service
_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, pid


class UserIds:
    """Allocates user ids. A byte of a file stands for each id, and is locked while a sandbox has it. The kernel
    releases the locks of a killed process.
    """

    def __init__(self, folder: Path, ids: range) -> None:
        """`folder` belongs to this user alone, and is the same for all processes of the service here. If it cannot be
        written (a container whose image is read-only), the ids of other processes are unknown: then it is a matter of
        chance that they differ.
        """
        self._ids = ids
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._file = os.open(folder / "user-ids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise IsolationUnavailable(
                    f"user ids of sandboxes cannot be kept apart in {folder}: {error}"
                ) from error
            self._file = os.memfd_create("user-ids", os.MFD_CLOEXEC)
        self._taken: set[int] = set()
        self._changing = threading.Lock()

    def take(self) -> int:
        """Takes an id that no sandbox has.

        Raises:
            InfrastructureError: all ids are taken.
        """
        first = secrets.randbelow(len(self._ids))  # a recently used id is not reused at once
        for number in range(len(self._ids)):
            uid = self._ids[(first + number) % len(self._ids)]
            with self._changing:
                if uid not in self._taken and self._lock(uid, fcntl.F_WRLCK):
                    self._taken.add(uid)  # the kernel would grant this open file the same lock again
                    return uid
        raise InfrastructureError(f"all {len(self._ids)} user ids from {self._ids[0]} on are in use by sandboxes")

    def give_back(self, uid: int) -> None:
        """Releases the id of a sandbox that has ended."""
        with self._changing:
            if self._file >= 0:
                self._lock(uid, fcntl.F_UNLCK)
                self._taken.discard(uid)

    def close(self) -> None:
        """Releases all ids. May be called twice."""
        with self._changing:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _lock(self, uid: int, kind: int) -> bool:
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, uid, 1, 0))
        except (BlockingIOError, PermissionError):  # another process has it
            return False
        return True
