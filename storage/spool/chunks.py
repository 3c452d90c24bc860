"""Cuts JSON lines into chunks while they stream in. It looks only for line ends and parses nothing."""

import struct
from bisect import bisect_right
from typing import NamedTuple

from gradebox.limits import LINE_BYTES
from storage.errors import Refused, TooLarge

CHUNK_LINES = 1000
FAST_CHUNK_LINES = 2000  # for graders that probably take at most FAST_LINE_MS: each chunk costs 0.5 ms of CPU
FAST_LINE_MS = 1.0
FIRST_CHUNK_LINES = 200  # chunks grow with the batch, so that a few hundred threads keep several workers busy
FAST_PART = 4  # a later chunk is at most this part of the lines before it
SLOW_PART = 16
SLOW_CHUNK_MS = 2000.0  # what a first chunk may take in the test run's time: more workers can share a slow batch
ASKING_CHUNK_LINES = 100  # for graders that ask: each line may wait for a model for minutes
GROUP_CHUNK_LINES = 100  # for groups: each line has many completions, and its outcome contains their scores
ASKING_GROUP_CHUNK_LINES = 20  # for both: a worker holds the outcomes of many such chunks, of up to 4 MB each
CHUNK_BYTES = 7 * 512 * 1024  # a chunk ends with the first line that reaches this size; sandboxes share 4 MiB
BATCH_LINES, MAX_BATCH_LINES = 1_000_000, 50_000_000  # the table shows no more
BATCH_BYTES = 4 * 1024**3

_PACKED = struct.Struct(">QQQQ")


class Chunk(NamedTuple):
    """A run of whole lines: the place of its bytes, and the threads that they hold."""

    offset: int
    length: int
    first_index: int
    lines: int


def pack(chunks: list[Chunk]) -> bytes:
    """Packs a chunk table, at 32 bytes a chunk."""
    return b"".join(_PACKED.pack(*chunk) for chunk in chunks)


def unpack(table: bytes) -> list[Chunk]:
    """Unpacks a chunk table."""
    return [Chunk(*fields) for fields in _PACKED.iter_unpack(table)]


def holding(chunks: list[Chunk], index: int) -> int:
    """The number of the chunk that holds thread `index`."""
    return bisect_right(chunks, index, key=lambda chunk: chunk.first_index) - 1


def wanted_lines(chunk: Chunk, after: int, limit: int | None) -> range:
    """The lines of a chunk with threads after number `after`, only the next `limit` threads if it is given."""
    end = chunk.lines if limit is None else min(after + 1 + limit - chunk.first_index, chunk.lines)
    return range(max(after + 1 - chunk.first_index, 0), end)


class Cutter:
    """Takes the bytes of an upload piece by piece, and returns its chunks at the end.

    Every line is a thread, even a blank one in the middle. White space at the very end is not a thread.
    """

    def __init__(
        self,
        max_lines: int = BATCH_LINES,
        max_bytes: int = BATCH_BYTES,
        first_lines: int = FIRST_CHUNK_LINES,
        line_bytes: int = LINE_BYTES,
        chunk_lines: int = CHUNK_LINES,
        line_ms: float = 0.0,
    ) -> None:
        """`line_ms`: the time that scoring a line will probably take. Chunks are smaller if it is long."""
        slow_lines = max(1, int(SLOW_CHUNK_MS / line_ms)) if line_ms else first_lines
        self._part = SLOW_PART if slow_lines < first_lines else FAST_PART
        first_lines = min(first_lines, slow_lines)
        self._chunk_lines = chunk_lines
        self._line_bytes = line_bytes
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._chunks: list[Chunk] = []
        self._chunk_offset = self._chunk_first = 0
        self._offset = self._lines = 0  # up to the last line end
        self._first_lines = self._most_lines = min(first_lines, chunk_lines)
        self._partial = 0  # bytes of the line that has no end yet
        self._blank = True  # whether those bytes are white space
        self._text_end = self._text_lines = 0  # up to the end of the last line that is not blank

    @property
    def size(self) -> int:
        """The number of bytes received."""
        return self._offset + self._partial

    def feed(self, data: bytes | bytearray) -> None:
        """Takes the next bytes.

        Raises:
            TooLarge: a line, the number of lines or the whole upload is over its limit.
        """
        if self._offset + self._partial + len(data) > self._max_bytes:
            raise TooLarge(f"a batch is at most {self._max_bytes} bytes: send the rest as another batch")
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._add(data, start, end)
            self._end_line()
            start = end
        self._add(data, start, len(data))

    def finish(self) -> list[Chunk]:
        """The chunks of the whole upload.

        Raises:
            Refused: it has no line.
        """
        if self._partial:
            self._end_line()
        if not self._text_lines:
            raise Refused("the batch is empty: send at least one thread, one JSON object a line")
        self._cut()
        chunks = [chunk for chunk in self._chunks if chunk.first_index < self._text_lines]
        last = chunks[-1]
        chunks[-1] = last._replace(
            length=min(last.length, self._text_end - last.offset),
            lines=min(last.lines, self._text_lines - last.first_index),
        )
        return chunks

    def _add(self, data: bytes | bytearray, start: int, end: int) -> None:
        self._partial += end - start
        most = self._line_bytes
        if self._partial > most and (self._partial > most + 1 or data[end - 1] != 0x0A):  # the line's end is no part
            raise TooLarge(f"line {self._lines + 1} is longer than {most} bytes: a thread is at most that long")
        # Most lines start with "{": only one that starts with white space is scanned whole.
        if self._blank and end > start:
            self._blank = data[start] <= 0x20 and data[start:end].isspace()

    def _end_line(self) -> None:
        self._lines += 1
        if self._lines > self._max_lines:
            raise TooLarge(f"a batch has at most {self._max_lines} threads: send the rest as another batch")
        self._offset += self._partial
        if not self._blank:
            self._text_end, self._text_lines = self._offset, self._lines
        self._partial, self._blank = 0, True
        if self._lines - self._chunk_first >= self._most_lines or self._offset - self._chunk_offset >= CHUNK_BYTES:
            self._cut()

    def _cut(self) -> None:
        lines = self._lines - self._chunk_first
        if lines:
            self._chunks.append(Chunk(self._chunk_offset, self._offset - self._chunk_offset, self._chunk_first, lines))
        self._chunk_offset, self._chunk_first = self._offset, self._lines
        self._most_lines = min(self._chunk_lines, max(self._first_lines, self._lines // self._part))
