"""One call that grades lines: what is left of them, and the outcomes so far."""

from collections.abc import Callable

from msgspec.structs import replace

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import Stopped
from sandbox.grading.channel import Stopping
from sandbox.grading.outcomes import Asked, Decoder
from sandbox.grading.session import Session, after
from sandbox.grading.thread_ids import read_group_size, read_ids
from sandbox.guest.protocol.frames import ANSWERED

Line = bytes | memoryview
Stop = Callable[[int], bool]
"""Receives the number of outcomes that a call has so far; returns True to cancel the call."""

_NO_ANSWERS = b"[]"
_STARVED = "But it got a processor for {used:.1f} of {seconds:.1f} s, since the machine was busy: score it again."


class GradingCall:
    """The lines of one call, and their outcomes so far.

    Attributes:
        starved: positions of the outcomes that are a `timeout` of a sandbox that got too little processor time.
    """

    def __init__(
        self,
        payload: bytes,
        lines: int,
        first_index: int,
        label: str,
        stop: Stop | None,
        has_answers: bool = False,
    ) -> None:
        self._payload = payload
        self._has_answers = has_answers  # answers precede each line, and no ids are read
        self._lines = lines
        self._first_index = first_index
        self._label = label
        self._stop = stop
        self._ids: list[str | int | None] = []
        self._split: list[bytes] = []  # the lines, if each is a group
        self.outcomes: list[Outcome | Asked] = []
        self.traces: dict[int, str] = {}
        self.starved: list[int] = []

    @property
    def stopping(self) -> Stopping | None:
        """A function that returns True if the caller cancels the call; None if the caller passed none. It is not
        stored: with a reference to itself, the call would hold its payload and outcomes until garbage collection, which
        is rare.
        """
        return None if self._stop is None else self._is_stopped

    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop(len(self.outcomes))

    @property
    def left(self) -> int:
        """The number of lines without an outcome."""
        return self._lines - len(self.outcomes)

    def score(self, session: Session) -> None:
        """Grades the remaining lines in a sandbox. Outcomes that arrived before an exception count."""
        session.settle(self.stopping)
        decoder = self._decoder(session, self._group_size)
        decode = decoder.decode_runs if _asks(session) else decoder.decode
        done = len(self.outcomes)
        if _asks(session):
            self._put_answers()
        rest = after(self._payload, done) if done else self._payload
        try:
            for records in session.grade(rest, self.left, self.stopping):
                done = len(self.outcomes)
                self.outcomes += decode(records, self._first_index + done, self._ids_of(done, records.number))
                self._note_starved(session, len(self.outcomes) - 1)
                if self.stopping is not None and self.left and self.stopping():
                    raise Stopped("the caller no longer waits")
        finally:
            self.traces |= decoder.traces

    def score_starved(self, session: Session) -> None:
        """Grades again the completions that got too little processor time. Their outcomes are replaced as the new ones
        arrive.
        """
        session.settle(self.stopping)
        positions, self.starved = self.starved, []
        lines = self._payload.split(b"\n")
        decoder = self._decoder(session, lambda number: _group_size(lines[positions[number]]))
        decode = decoder.decode_runs if _asks(session) else decoder.decode
        payload = b"\n".join(lines[position] for position in positions)
        done = 0
        for records in session.grade(payload, len(positions), self.stopping):
            for outcome in decode(records, done, [None] * records.number):
                position = positions[done]
                before = self.outcomes[position]
                self.outcomes[position] = replace(outcome, index=before.index, id=before.id)
                done += 1
            self._note_starved(session, positions[done - 1])
        self.traces |= {self._first_index + positions[number]: trace for number, trace in decoder.traces.items()}

    def _put_answers(self) -> None:
        """Puts an empty list of answers before each line, unless the lines have answers already."""
        if not self._has_answers:
            self._ids = read_ids(self._payload, self._lines)
            lines = self._payload.split(b"\n")[: self._lines]
            self._payload = b"".join(answered(_NO_ANSWERS, line) for line in lines)
            self._has_answers = True

    def _decoder(self, session: Session, group_size: Callable[[int], int]) -> Decoder:
        groups = session.loaded is not None and session.loaded.groups
        ran_out = session.sandbox.ran_out_of_memory
        return Decoder(self._label, session.limits, ran_out, group_size if groups else None)

    def _group_size(self, index: int) -> int:
        if not self._split:
            self._split = self._payload.split(b"\n")
        return _group_size(self._split[index - self._first_index])

    def _note_starved(self, session: Session, position: int) -> None:
        """Marks an outcome as retryable, and for another run here, if it timed out for lack of processor time."""
        outcome = self.outcomes[position]
        if session.starved is None or isinstance(outcome, Asked):
            return
        if outcome.error is None or outcome.error.kind != "timeout":
            return
        used, seconds = session.starved
        message = f"{outcome.error.message} {_STARVED.format(used=used, seconds=seconds)}"
        self.outcomes[position] = replace(outcome, error=OutcomeError("timeout", message, retryable=True))
        self.starved.append(position)

    def fail_next(self, error: OutcomeError) -> None:
        """Sets this error as the outcome of the next line."""
        done = len(self.outcomes)
        (identity,) = self._ids_of(done, 1)
        self.outcomes.append(Outcome(self._first_index + done, self._label, None, 0.0, identity, error=error))

    def fail_rest(self, error: OutcomeError) -> None:
        """Sets this error as the outcome of all remaining lines."""
        while self.left:
            self.fail_next(error)

    def _ids_of(self, first: int, number: int) -> list[str | int | None]:
        """The ids of these lines. The first call reads all ids, while the sandbox is already working."""
        if not self._ids:
            self._ids = [None] * self._lines if self._has_answers else read_ids(self._payload, self._lines)
        return self._ids[first : first + number]


def _asks(session: Session) -> bool:
    return session.loaded is not None and bool(session.loaded.asks)


def _group_size(line: bytes) -> int:
    """The number of threads in the group of a line, which may start with answers."""
    answers, mark, rest = line.partition(ANSWERED)
    return read_group_size(rest if mark else answers)


def answered(answers: bytes, line: Line) -> bytes:
    """A line in the form that a grader with asks receives."""
    return b"".join((answers, ANSWERED, line, b"\n"))
