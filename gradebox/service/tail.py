"""Reads a log as it grows, and keeps it from growing for ever."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gradebox.service.data_folder import LOG_BYTES

_AT_ONCE = 256 * 1024


class Tail:
    """What is appended to a log from now on, in whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def read(self) -> list[str]:
        """The lines that have come. A log that has grown large is put aside then, and begins anew."""
        try:
            data = self._read_new()
        except OSError:  # it has no log yet, or somebody took it away
            return []
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[:_AT_ONCE]
        if not data and self._offset > LOG_BYTES:
            self._put_aside()
        return [line.decode("utf-8", "replace") for line in lines if line]

    def _read_new(self) -> bytes:
        size = self.path.stat().st_size
        if size == self._offset:  # most often
            return b""
        if size < self._offset:  # somebody has emptied it
            self._offset, self._partial = 0, b""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            return log.read(_AT_ONCE)

    def _put_aside(self) -> None:
        """The process goes on appending to the same file, so that is emptied and not moved."""
        with suppress(OSError):  # such as that of a disk that is full
            shutil.copyfile(self.path, self.path.with_suffix(".log.1"))
        os.truncate(self.path, 0)
        self._offset = 0
