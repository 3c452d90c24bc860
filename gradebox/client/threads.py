"""Threads as a user gives them, a list or a file, in blocks of JSON lines for the service."""

import io
import logging
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from gradebox.client.thread_line import ACCEPTED, MalformedLine, Thread, encode, form_of, is_turn, line_and_form
from gradebox.errors import TooLarge
from gradebox.limits import REQUEST_BYTES, REQUEST_THREADS
from gradebox.thread import StringThread


@runtime_checkable
class Reader(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Returns at most `size` bytes, and no bytes at the end of the file."""


Threads: TypeAlias = Iterable[Thread] | str | os.PathLike[str] | Reader
"""Threads, the path of a file of JSON lines, or such a file opened for reading bytes."""


BLOCK_BYTES = 256 * 1024
FIRST_LINES = 100  # lines of a file that are checked before it is sent
LINES_BYTES = REQUEST_BYTES - 1024 * 1024  # for the lines in one request; the rest is room for other fields
_HEAD_BYTES = 1024  # the same room where a request may have fewer bytes

_log = logging.getLogger("gradebox")

# First bytes of files that are mistaken for JSON lines, with what makes JSON lines of them.
_OTHER_FILES = {
    b"\x1f\x8b": ("compressed by gzip", "gunzip FILE"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "unzstd FILE"),
    b"\xff\xfe": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    b"\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    b"PK\x03\x04": (
        "a zip archive, or a workbook of Excel",
        "unzip FILE; in Python, pandas.read_excel(FILE).to_json(OUT, orient='records', lines=True)",
    ),
    b"PAR1": ("Parquet", "in Python, pandas.read_parquet(FILE).to_json(OUT, orient='records', lines=True)"),
    b"[": ("one JSON array", "jq -c '.[]' FILE"),
    b"{\n": ("JSON over several lines", "jq -c . FILE"),
    b"{\r\n": ("JSON over several lines", "jq -c . FILE"),
}
_AFTER_LINE = (b"", b"\n", b"\r")


def blocks(threads: Threads, size: int | None = None) -> Iterator[bytes]:
    """The body of a batch: JSON lines in blocks of bytes, which are read or encoded on demand.

    `size` is the `length` of the threads, if they have one. As many bytes are read, also if the file grows meanwhile.

    Raises:
        ValueError: the file became shorter than `size`, or grew in the middle of the line that ends there.
    """
    if isinstance(threads, str | os.PathLike):
        with Path(threads).open("rb") as file:
            yield from _checked(_read(file) if size is None else _read_exactly(file, size))
    elif isinstance(threads, Reader):
        yield from _checked(_read(threads))
    else:
        yield from _lines_in_blocks(threads)


def length(threads: Threads | None) -> int | None:
    """The total size of `blocks` in bytes if the threads are the path of a regular file, otherwise None.

    The service reads a body of known length at less cost than a chunked one.
    """
    if not isinstance(threads, str | os.PathLike):
        return None
    status = Path(threads).stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class Repeatable:
    """Threads that each iteration gives from their start."""


def is_repeatable(threads: object) -> bool:
    """Whether each iteration gives these threads from their start, in the same order.

    Of an iterable without an index, that is unknown: a `tqdm` of a generator goes on where its last iteration ended.
    """
    if isinstance(threads, str | os.PathLike):
        return length(threads) is not None  # else it is a pipe
    if isinstance(threads, Reader | Iterator):
        return False
    return isinstance(threads, ValuesView | Repeatable) or hasattr(threads, "__getitem__")


class Resend:
    """Reads threads for each try of a request. A generator or a pipe cannot be rewound for a retry.

    Attributes:
        possible: whether the threads can be read again from their start.
        failed: what the threads raised themselves; a generator may use httpx as the client does.
        taken_at: when the connection took the last block, by the monotonic clock.
    """

    def __init__(self, threads: Threads | None) -> None:
        self.failed: Exception | None = None
        self.taken_at = -inf
        self._threads = () if threads is None else threads
        self._file: io.IOBase | None = None
        self._start = 0
        if isinstance(threads, io.IOBase) and threads.seekable():
            self._file, self._start = threads, threads.tell()
        self.possible = self._file is not None or threads is None or is_repeatable(threads)

    def blocks(self, size: int | None) -> Iterator[bytes]:
        """As the function `blocks`; without threads, nothing."""
        try:
            for block in blocks(self._threads, size):
                yield block
                self.taken_at = monotonic()
        except Exception as error:
            self.failed = error
            raise

    async def async_blocks(self, size: int | None) -> AsyncIterator[bytes]:
        """`blocks` for the asynchronous client. Encoding a block takes about a millisecond."""
        for block in self.blocks(size):
            yield block

    def rewind(self) -> None:
        """Seeks to the position at which the threads started."""
        if self._file is not None:
            self._file.seek(self._start)


class _Line(NamedTuple):
    number: int
    data: bytes
    threads: int


@dataclass
class ScoreLimits:
    """The limits of one request for synchronous scoring, as far as they are known."""

    threads: int = REQUEST_THREADS
    lines_bytes: int = LINES_BYTES


class Pieces:
    """Splits threads into requests for synchronous scoring: yields the first index and the lines of each."""

    def __init__(self, threads: Threads, limits: ScoreLimits) -> None:
        self._lines = _encoded(threads)
        self._limits = limits
        self._last: list[_Line] = []
        self._taken_back = deque[_Line]()

    def __iter__(self) -> Iterator[tuple[int, list[bytes]]]:
        while lines := self._next():
            self._last = lines
            yield lines[0].number, [line.data for line in lines]

    def _next(self) -> list[_Line]:
        lines = list[_Line]()
        size = threads = 0
        while line := self._taken_back.popleft() if self._taken_back else next(self._lines, None):
            size += len(line.data) + 1
            threads += line.threads
            if lines and (threads > self._limits.threads or size > self._limits.lines_bytes):
                self._taken_back.appendleft(line)
                break
            lines.append(line)
        return lines

    def cut_again(self, error: TooLarge) -> bool:
        """Takes the last piece back, which the service refused, to yield it in smaller pieces. False if the limits that
        the error names do not cut it. They are kept in the `limits` of this object.
        """
        if error.most_threads is None or error.most_bytes is None:
            return False
        limits, refused = self._limits, self._last
        limits.threads = min(limits.threads, error.most_threads)
        limits.lines_bytes = min(limits.lines_bytes, error.most_bytes - _HEAD_BYTES)
        self._taken_back.extendleft(reversed(refused))
        first = self._next()
        self._taken_back.extendleft(reversed(first))
        return len(first) < len(refused)


def _encoded(threads: Threads) -> Iterator[_Line]:
    completions = _Completions()
    sent: Iterable[Thread | MalformedLine] = each_of(threads)
    for number, thread in enumerate(sent):
        line, many = completions.line_of(thread, number)
        if isinstance(thread, MalformedLine):  # a member of the request, which must be JSON
            line = encode(line.decode("utf-8", "replace")).encode("ascii")
        yield _Line(number, line, many)
    completions.report()


def each_of(threads: Threads) -> Iterable[Thread]:
    """The threads. Raises TypeError for a single thread, a file, a DataFrame or no collection at all."""
    if isinstance(threads, str | os.PathLike | Reader):
        raise TypeError(f"{threads!r:.200} is a file, and a list of threads is wanted here. A batch takes a file")
    if isinstance(threads, StringThread | Mapping):
        raise TypeError(f"this is one {type(threads).__name__}, and a list of threads is wanted here: write [thread]")
    if isinstance(threads, Sequence) and threads and is_turn(threads[0]):
        raise TypeError(
            "this is one thread as a list of (role, content), and a list of threads is wanted here: write [thread]. "
            f"Inside the list, {ACCEPTED}"
        )
    if is_frame(threads):
        names = ", ".join(map(str, getattr(threads, "columns", ())))
        raise TypeError(
            f"a DataFrame needs columns=, which maps its columns to the members of a thread, as in "
            f'columns={{"question": "prompt", "response": "completion"}}. It has the columns {names:.300}'
        )
    if not hasattr(threads, "__iter__") and not hasattr(threads, "__getitem__"):
        raise TypeError(f"{threads!r:.80} is no list of threads. In the list, {ACCEPTED}")
    return threads


def is_frame(threads: object) -> bool:
    """Whether this is a `pandas.DataFrame`. A `datasets.Dataset` is none: it has `to_dict` too, with another result."""
    return callable(getattr(threads, "itertuples", None))


class _Completions:
    """Counts threads without a completion, because graders would give them a low score by mistake."""

    def __init__(self, of: str = "{} threads") -> None:
        """`of` names what is counted, in the warning."""
        self._of = of
        self._count = 0
        self._missing = 0
        self._first = 0

    def line_of(self, thread: Thread | MalformedLine, number: int) -> tuple[bytes, int]:
        """Counts a thread or group; returns its JSON and the number of its threads."""
        line, form = line_and_form(thread, number)
        self.count(form.is_answered, number)
        return line, form.threads

    def count(self, answered: bool, number: int) -> None:
        """Counts a thread, or a group as one."""
        self._count += 1
        if not answered:
            self._first = self._first if self._missing else number
            self._missing += 1

    def report(self) -> None:
        """Logs a warning with the number of threads without a completion, if there are any."""
        if self._missing:
            _log.warning(
                "%s of %s do not end with a turn of the assistant: thread.completion() is None for them. "
                "The first is thread %s",
                f"{self._missing:,}",
                self._of.format(f"{self._count:,}"),
                self._first,
            )


def _read(file: Reader) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block


def _read_exactly(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file that another process may be writing. Raises ValueError as `blocks` does."""
    left = size
    while left:
        block = file.read(min(BLOCK_BYTES, left))
        if not block:
            raise ValueError(
                f"{file.name} became shorter while it was read, from {size:,} to {size - left:,} bytes, and nothing "
                "was scored: wait until no other process writes it, or pass a copy"
            )
        left -= len(block)
        # JSON has no line ends inside texts: a line that continues with one was complete.
        if not left and not block.endswith(b"\n") and file.read(1) not in _AFTER_LINE:
            raise ValueError(
                f"{file.name} ended in the middle of a line when it was read, after {size:,} bytes, and nothing was "
                "scored: wait until the line is complete, or pass a copy with complete lines"
            )
        yield block


def _checked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks of a file, whose start is checked. Raises TypeError if they are text."""
    first = True
    for block in blocks:
        if not isinstance(block, bytes):
            raise TypeError('the file of threads must be opened for reading bytes: open(path, "rb")')
        if first:
            _check_start(block)
        first = False
        yield block


def _check_start(block: bytes) -> None:
    """Checks the start of a file: raises ValueError if it is clearly not JSON lines, and logs missing completions."""
    check_kind(block)
    completions = _Completions("the first {} lines")
    for number, line in enumerate(block.split(b"\n", FIRST_LINES)[:FIRST_LINES]):
        if line:
            completions.count(not _is_unanswered(line), number)
    completions.report()


def check_kind(start: bytes) -> None:
    """Raises ValueError if a file that begins so is clearly not JSON lines."""
    for first, (kind, remedy) in _OTHER_FILES.items():
        if start.startswith(first):
            raise ValueError(f"the file of threads is {kind}: write JSON, one thread a line, as UTF-8 ({remedy})")


def _is_unanswered(line: bytes) -> bool:
    """Whether a line is a thread without a completion."""
    # The last line may be incomplete. Other invalid lines are reported by their outcomes.
    with suppress(ValueError, TypeError, RecursionError):
        thread = msgspec.json.decode(line)
        return isinstance(thread, dict) and not form_of(thread).is_answered
    return False


def _lines_in_blocks(threads: Threads) -> Iterator[bytes]:
    block, size = list[bytes](), 0
    completions = _Completions()
    for number, thread in enumerate(each_of(threads)):
        line, _ = completions.line_of(thread, number)
        block.append(line)
        size += len(line) + 1
        if size >= BLOCK_BYTES:
            yield b"\n".join(block) + b"\n"
            block, size = [], 0
    if block:
        yield b"\n".join(block) + b"\n"
    completions.report()
