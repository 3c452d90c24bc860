"""Reads a log as it grows, and keeps it from growing for ever."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 256 * 1024


class Tail:
    """What is appended to a log from now on, in whole lines.

    A log of more than `most_bytes` is put aside, in the place of the one that was put aside before, and begins anew.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def read(self) -> list[str]:
        """The lines that have come. Those of a log that grows faster than it is read may be in what was put aside."""
        try:
            data = self._read_new()
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._partial = self._partial[:_AT_ONCE]
            if (size := self.path.stat().st_size) > self._most_bytes:
                self._put_aside(size)
        except OSError:  # it has no log yet, or somebody took it away
            return []
        return [line.decode("utf-8", "replace") for line in lines if line]

    def _read_new(self) -> bytes:
        size = self.path.stat().st_size
        if size == self._offset:  # most often
            return b""
        if size < self._offset:  # somebody has emptied it
            self._offset, self._partial = 0, b""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            data = log.read(_AT_ONCE)
        self._offset += len(data)
        return data

    def _put_aside(self, size: int) -> None:
        """The process goes on appending to the same file, so that is emptied and not moved."""
        with suppress(OSError):  # such as that of a disk that is full
            shutil.copyfile(self.path, self.path.with_suffix(".log.1"))
        os.truncate(self.path, 0)
        if self._offset < size:
            self._partial = b""
        self._offset = 0
