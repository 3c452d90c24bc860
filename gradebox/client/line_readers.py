"""Reads outcomes or threads out of the bytes of a stream, and remembers where to read on when the stream breaks."""

import json
from itertools import takewhile
from typing import Any, Protocol, TypeVar

import msgspec

from gradebox.errors import ConnectionFailed
from gradebox.outcome import Outcome

T = TypeVar("T")

_decoder = msgspec.json.Decoder(Outcome)


class StreamReader(Protocol[T]):
    """Cuts blocks of bytes into what their lines hold."""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""

    def feed(self, block: bytes) -> list[T]:
        """What is whole with this block."""

    def end(self) -> list[T]:
        """What no line end followed, when the stream has ended well."""


class _Bound:
    """Where reading ends: `limit` threads after number `after`."""

    def __init__(self, after: int | None, limit: int | None) -> None:
        self._last = None if limit is None else (-1 if after is None else after) + limit

    def params(self, start: int) -> dict[str, int]:
        """The query that reads on after thread `start`."""
        after = {} if start < 0 else {"after": start}
        return after if self._last is None else {**after, "limit": max(self._last - start, 1)}


class OutcomeReader:
    """Cuts blocks of bytes into outcomes.

    A batch of several graders has several outcomes for one index, and a stream may break between them. So reading on
    starts before the last index, and skips what was seen of it.
    """

    def __init__(self, after: int | None, limit: int | None = None) -> None:
        self._after = after
        self._bound = _Bound(after, limit)
        self._index = -1 if after is None else after
        self._seen = 0  # outcomes of that index
        self._skip = 0
        self._rest = b""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""
        self._rest, self._skip = b"", self._seen
        start = self._index - 1 if self._seen else self._after
        return self._bound.params(-1 if start is None else start)

    def feed(self, block: bytes) -> list[Outcome]:
        """The outcomes that are whole with this block."""
        whole, newline, rest = block.rpartition(b"\n")
        if not newline:
            self._rest += block
            return []
        outcomes = self._decode(self._rest + whole)
        self._rest = rest
        fresh = outcomes[self._skip :]
        self._skip -= len(outcomes) - len(fresh)
        if fresh:
            self._count(fresh)
        return fresh

    def end(self) -> list[Outcome]:
        """The outcome that no line end followed, when the stream has ended well."""
        return self.feed(b"\n") if self._rest else []

    def _decode(self, lines: bytes) -> list[Outcome]:
        try:
            return _decoder.decode_lines(lines)
        except msgspec.DecodeError as error:
            raise ConnectionFailed(
                f"after the outcome of thread {self._index} came what is no outcome ({error}): "
                "is the URL that of a gradebox service, and of this version?"
            ) from error

    def _count(self, fresh: list[Outcome]) -> None:
        last = fresh[-1].index
        if last != self._index:
            self._index, self._seen = last, 0
        self._seen += sum(1 for _ in takewhile(lambda outcome: outcome.index == last, reversed(fresh)))


class SentThreadReader:
    """Cuts blocks of bytes into threads as they were sent: what JSON says, or the line itself where it is none."""

    def __init__(self, after: int | None, limit: int | None = None) -> None:
        self._bound = _Bound(after, limit)
        self._index = -1 if after is None else after
        self._rest = b""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""
        self._rest = b""
        return self._bound.params(self._index)

    def feed(self, block: bytes) -> list[Any]:
        """The threads that are whole with this block."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._index += len(lines)
        return [_thread(line) for line in lines]

    def end(self) -> list[Any]:
        """The thread that no line end followed, when the stream has ended well."""
        return self.feed(b"\n") if self._rest else []


def read_threads(lines: bytes) -> list[Any]:
    """All threads of an answer: what JSON says of each, or the line itself where it is none."""
    return [_thread(line) for line in lines.split(b"\n")[:-1]]


def _thread(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace")
