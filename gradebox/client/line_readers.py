"""Reads outcomes or threads out of the bytes of a stream, and remembers where to read on when the stream breaks."""

import json
from itertools import takewhile
from typing import Any, Protocol, TypeVar

import msgspec

from gradebox.errors import ConnectionFailed
from gradebox.outcome import Outcome

T = TypeVar("T")

_decoder = msgspec.json.Decoder(Outcome)


class LineReader(Protocol[T]):
    """Cuts blocks of bytes into what their lines hold."""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""

    def feed(self, block: bytes) -> list[T]:
        """What is whole with this block."""

    def end(self) -> list[T]:
        """What no line end followed, when the stream has ended well."""


class OutcomeReader:
    """Cuts blocks of bytes into outcomes.

    A batch of several graders has several outcomes for one index, and a stream may break between them. So reading on
    starts before the last index, and skips what was seen of it.
    """

    def __init__(self, after: int | None) -> None:
        self._after = after
        self._index = -1 if after is None else after
        self._seen = 0  # outcomes of that index
        self._skip = 0
        self._rest = b""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""
        self._rest, self._skip = b"", self._seen
        start = self._index - 1 if self._seen else self._after
        return {} if start is None or start < 0 else {"after": start}

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


class ThreadReader:
    """Cuts blocks of bytes into threads as they were sent: what JSON says, or the line itself where it is none."""

    def __init__(self, after: int | None) -> None:
        self._index = -1 if after is None else after
        self._rest = b""

    @property
    def params(self) -> dict[str, int]:
        """The query that reads on from here; to be asked once for each request."""
        self._rest = b""
        return {} if self._index < 0 else {"after": self._index}

    def feed(self, block: bytes) -> list[Any]:
        """The threads that are whole with this block."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._index += len(lines)
        return [_thread(line) for line in lines]

    def end(self) -> list[Any]:
        """The thread that no line end followed, when the stream has ended well."""
        return self.feed(b"\n") if self._rest else []


def _thread(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode("utf-8", "replace")
