"""Reads the new lines of a growing log, and limits its size."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 256 * 1024


class Tail:
    """Reads the whole lines that are appended to a log after the reader is created.

    A log of more than `most_bytes` is rotated: copied over the previous rotated log, and emptied.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def read(self) -> list[str]:
        """The new lines. If the log grows faster than it is read, some lines are only in the rotated log."""
        try:
            data = self._read_new()
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._partial = self._partial[:_AT_ONCE]
            if (size := self.path.stat().st_size) > self._most_bytes:
                self._put_aside(size)
        except OSError:  # the log does not exist yet, or was removed
            return []
        return [line.decode("utf-8", "replace") for line in lines if line]

    def _read_new(self) -> bytes:
        size = self.path.stat().st_size
        if size == self._offset:  # most often
            return b""
        if size < self._offset:  # another process has emptied it
            self._offset, self._partial = 0, b""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            data = log.read(_AT_ONCE)
        self._offset += len(data)
        return data

    def _put_aside(self, size: int) -> None:
        """Rotates the log. The file is emptied and not moved, because the process continues to append to it."""
        with suppress(OSError):  # such as a full disk
            shutil.copyfile(self.path, self.path.with_suffix(".log.1"))
        os.truncate(self.path, 0)
        if self._offset < size:
            self._partial = b""
        self._offset = 0
