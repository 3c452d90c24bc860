"""What a completion prints: kept in an unlinked file, so that it outlives the process that printed it."""

import io
import os
import sys


class _Capped(io.FileIO):
    """Standard output that takes any amount and keeps the first `most` bytes."""

    def __init__(self, descriptor: int, most: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.left = most

    def write(self, data: object) -> int:  # type: ignore[override]  # any buffer, as FileIO takes
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # a TypeError is the caller's
        if self.left > 0:
            self.left -= super().write(view[: self.left])
        return len(view)


def make_file() -> int:
    """A new file without a name, for the output of one child."""
    return os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)  # noqa: S108


def take(descriptor: int, most: int) -> bytes:
    """What the file holds, at most so many bytes of it; it is empty afterwards."""
    try:
        if not os.lseek(descriptor, 0, os.SEEK_END):
            return b""
        data = os.pread(descriptor, most, 0)
        os.ftruncate(descriptor, 0)
    except OSError:  # the grader closed it, or put something else in its place
        return b""
    return data


class Output:
    """Standard output and error of this process, as one stream."""

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor = descriptor
        self._most = most
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        self._raw = _Capped(1, most)
        # Written through: what was printed before a crash is there after it.
        self._text = io.TextIOWrapper(self._raw, "utf-8", "backslashreplace", write_through=True)  # type: ignore[type-var]
        sys.stdout = sys.__stdout__ = self._text
        sys.stderr = sys.__stderr__ = self._text

    def take(self) -> bytes:
        """What was printed since the last call."""
        self._raw.left = self._most
        return take(self._descriptor, self._most)
