"""Reads outcomes out of the bytes of a stream, and remembers where to read on when the stream breaks."""

from itertools import takewhile

import msgspec
from msgspec.structs import replace

from gradebox.errors import ConnectionFailed, GradeboxError
from gradebox.outcome import Outcome
from gradebox.schemas import Batch

_decoder = msgspec.json.Decoder(Outcome)


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


def moved(outcomes: list[Outcome], first: int) -> list[Outcome]:
    """The outcomes of a later request, with the positions that their threads have among all."""
    return [replace(outcome, index=first + outcome.index) for outcome in outcomes] if first else outcomes


class Rewards:
    """One number for each thread of a batch: the sum of its graders' scores, each times the weight of its grader."""

    def __init__(self, batch: Batch) -> None:
        self._weights = {f"{grader.key}@{grader.version}": grader.weight for grader in batch.graders}
        self._sums: list[float | None] = [0.0] * batch.threads
        self._missing = batch.total

    def add(self, outcome: Outcome) -> None:
        """Counts one outcome. Without a score there is no reward."""
        before = self._sums[outcome.index]
        score = outcome.score
        weight = self._weights[outcome.grader]
        self._sums[outcome.index] = None if before is None or score is None else before + weight * score
        self._missing -= 1

    def result(self) -> list[float | None]:
        """The rewards, in the order of the threads. Raises GradeboxError where outcomes are missing."""
        if self._missing:
            raise GradeboxError(f"{self._missing} outcomes of the batch are missing, and rewards need all of them")
        return self._sums
