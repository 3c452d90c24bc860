"""Readers that parse outcomes or threads from a stream, and record where to resume if the stream breaks."""

import json
from abc import ABC, abstractmethod
from itertools import takewhile
from typing import Any, Generic, TypeVar

import msgspec

from gradebox.errors import ConnectionFailed
from gradebox.outcome import Outcome, OutcomeDecoder

T = TypeVar("T")

_decoder = OutcomeDecoder(Outcome)


class StreamReader(ABC, Generic[T]):
    """Parses blocks of bytes into one item for each line."""

    def __init__(self, after: int | None, limit: int | None = None) -> None:
        """Reads the items of `limit` threads, or of all, after thread `after`, or from the first one on.

        Raises ValueError if the limit is below 1.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit} is no number of threads from 1 on: pass one, or None for all threads")
        self._index = -1 if after is None else after
        self._last = None if limit is None else self._index + limit
        self._rest = b""

    @property
    @abstractmethod
    def params(self) -> dict[str, int]:
        """The query that resumes after the last item. Reading it resets the partial line: read it once per request."""

    @abstractmethod
    def feed(self, block: bytes) -> list[T]:
        """The items that this block completes."""

    def end(self) -> list[T]:
        """The last item, if the stream ended without a line end after it. Call it if the stream ended normally."""
        return self.feed(b"\n") if self._rest else []

    def _rest_after(self, start: int) -> dict[str, int]:
        """The query for the threads of the range after thread `start`."""
        after = {} if start < 0 else {"after": start}
        return after if self._last is None else {**after, "limit": max(self._last - start, 1)}


class OutcomeReader(StreamReader[Outcome]):
    """Parses blocks of bytes into outcomes.

    A batch of several graders has several outcomes for one index, and a stream may break between them. Therefore a
    resumed stream starts at the last index, and the reader skips the outcomes of that index that it has returned.
    """

    def __init__(self, after: int | None, limit: int | None = None) -> None:
        super().__init__(after, limit)
        self._seen = 0  # outcomes of the last index
        self._skip = 0

    @property
    def params(self) -> dict[str, int]:
        """See `StreamReader`."""
        self._rest, self._skip = b"", self._seen
        return self._rest_after(self._index - 1 if self._seen else self._index)

    def feed(self, block: bytes) -> list[Outcome]:
        """See `StreamReader`."""
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

    def _decode(self, lines: bytes) -> list[Outcome]:
        try:
            return _decoder.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConnectionFailed(
                f"after the outcome of thread {self._index} came what is no outcome ({error}): "
                "is the URL that of a gradebox service, and of this version?"
            ) from error

    def _count(self, fresh: list[Outcome]) -> None:
        last = fresh[-1].index
        if last != self._index:
            self._index, self._seen = last, 0
        self._seen += sum(1 for _ in takewhile(lambda outcome: outcome.index == last, reversed(fresh)))


class SentThreadReader(StreamReader[Any]):
    """Parses blocks of bytes into threads as they were sent: the JSON value, or the line if it is not JSON."""

    @property
    def params(self) -> dict[str, int]:
        """See `StreamReader`."""
        self._rest = b""
        return self._rest_after(self._index)

    def feed(self, block: bytes) -> list[Any]:
        """See `StreamReader`."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._index += len(lines)
        return [_thread(line) for line in lines]

    def end(self) -> list[Any]:
        """Nothing: each thread has a line end. Raises ConnectionFailed if the last one lacks it."""
        if self._rest:
            raise ConnectionFailed(
                f"the threads were cut off in the middle of thread {self._index + 1}: read them again"
            )
        return []


def read_threads(lines: bytes, number: int) -> list[Any]:
    """All threads of an answer, each as its JSON value, or as the line if it is not JSON.

    Raises ValueError if there are more or fewer than `number`.
    """
    *threads, rest = lines.split(b"\n")
    if rest or len(threads) != number:
        raise ValueError(f"{len(threads)} threads came in place of {number}")
    return [_thread(line) for line in threads]


def _thread(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace")
