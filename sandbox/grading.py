"""Scores threads with one grader, through as many sandboxes as it takes."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError, Stopped
from sandbox.guest.protocol.frames import ANSWERED
from sandbox.outcomes import Asked, Decoder
from sandbox.session import Ended, Loaded, Session, Stopping, after, count_lines
from sandbox.thread_ids import read_group_size, read_ids

Line = bytes | memoryview
Stop = Callable[[int], bool]
"""Given how many outcomes a call has so far, says whether the caller wants no more."""

_TRIES = 2  # at one thread, before what its sandbox comes to is the grader's doing; to load a grader
_SILENT_TRIES = 4  # the same, where the sandbox ends without a word: a grader cannot do that, as far as is known
_MEMORY = "all processes together wanted more memory than `memory_mb` allows: use less, or raise it"
_OVERDUE = "the sandbox did not answer in time while this thread was graded"
_CRASH = "the sandbox ended while this thread was graded, again and again"
_NO_ANSWERS = b"[]"
_AGAIN = 2  # that a completion is graded anew which got too little of a processor
_STARVED = "But it got a processor for {used:.1f} of {seconds:.1f} s, since the machine was busy: score it again."
NO_SANDBOX = OutcomeError(
    "infrastructure", "the service lost the sandbox of this thread and had no other: score it again", retryable=True
)

_log = logging.getLogger(__name__)


class Grading:
    """One grader, loaded. `take` gives a session that has loaded it; `drop` ends one, and hears why.

    Attributes:
        reads_ids: whether outcomes have the ids of their threads; where others have them, reading them is time lost.
    """

    def __init__(self, take: Callable[[Stopping | None], Session], drop: Callable[[Session, str], None]) -> None:
        self._take = take
        self._drop = drop
        self._session: Session | None = None
        self._refusal: OutcomeError | None = None
        self.traces: dict[int, str] = {}
        self.reads_ids = True

    @property
    def session(self) -> Session:
        """The session in use. Raises InfrastructureError when none can be had."""
        self.load()
        assert self._session is not None
        return self._session

    def load(self, stopping: Stopping | None = None) -> Loaded:
        """What loading the grader came to in the session in use.

        Raises:
            InfrastructureError: none can be had.
            Stopped: `stopping` said so.
        """
        session = self._session = self._session or self._take(stopping)
        assert session.loaded is not None
        return session.loaded

    def release(self) -> Session | None:
        """Gives up the session, if there is one."""
        session, self._session = self._session, None
        return session

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """One outcome for each line of JSON, in order, whatever becomes of the sandbox meanwhile.

        Args:
            payload: the lines; the last one may lack its end.
            first_index: the index of the first line's outcome.
            label: what the outcomes call the grader.
            lines: how many there are, where that is known: counting takes longer than moving them.
            stop: asked at least each 0.25 s while a sandbox is waited for, and after each group of outcomes but the
                last. When it says so, the sandbox is ended at once, and what there is so far is returned.

        Raises:
            InfrastructureError, OSError: no sandbox could be had, or none could load the grader for a reason that may
                pass, and there is no outcome yet. Where there are some, the others are of kind `infrastructure`.
        """
        count = count_lines(payload) if lines is None else lines
        call = _Call(payload, count, first_index, label, stop, reads_ids=self.reads_ids)
        self._run(call)
        return [_unanswered(each, label) if isinstance(each, Asked) else each for each in call.outcomes]

    def step(
        self, lines: Sequence[Line], answers: Sequence[bytes], label: str, *, stop: Stop | None = None
    ) -> list[Outcome | Asked]:
        """Runs a grader that asks once on each line, with the answers that are known. Indices count from 0.

        Args:
            lines: a thread each, without its end.
            answers: for each line, as `Replay` reads them.
            label: see `score`.
            stop: see `score`.

        Raises as `score` does.
        """
        payload = b"".join(_answered(*each) for each in zip(answers, lines, strict=True))
        call = _Call(payload, len(lines), 0, label, stop, has_answers=True)
        self._run(call)
        return call.outcomes

    def _run(self, call: "_Call") -> None:
        """Has a call scored. Raises as `score` does."""
        try:
            self._score_all(call)
            self._score_starved(call)
        except Stopped:
            self._let_go("abandoned")
        except (InfrastructureError, OSError) as error:  # OSError: this machine has no room or no descriptors left
            self._let_go("abandoned")
            if not call.outcomes:
                raise
            _log.warning("%d of %d threads have no sandbox left: %s", call.left, len(call.outcomes) + call.left, error)
            call.fail_rest(NO_SANDBOX)
        self.traces = call.traces

    def _let_go(self, why: str) -> None:
        if self._session is not None:
            self._drop(self._session, why)
            self._session = None

    def _score_all(self, call: "_Call") -> None:
        tries, last = 0, -1
        while call.left:
            session = self._load(call.stopping)
            if self._refusal is not None:
                call.fail_rest(self._refusal)
                return
            try:
                call.score(session)
            except Ended as error:
                is_tainted = error.tainted
                done = len(call.outcomes)
                tries = tries + 1 if last == done else int(not is_tainted)  # what it gave up over is done
                last = done
                verdict = _verdict(session, error, tries)
                self._let_go(verdict.kind if verdict else "tainted" if is_tainted else "crash")
                if verdict is not None and call.left:
                    call.fail_next(verdict)

    def _score_starved(self, call: "_Call") -> None:
        """Has completions graded again that took too long while others had the processors."""
        for _ in range(_AGAIN):
            if not call.starved:
                return
            session = self._load(call.stopping)
            if self._refusal is not None:
                return
            try:
                call.score_starved(session)
            except Ended as error:
                _log.warning("a sandbox ended over completions that were graded again: %s", error)
                self._let_go("crash")

    def _load(self, stopping: Stopping | None) -> Session:
        """A session that has loaded the grader, or that has found again that it cannot be: `_refusal` says so then.

        Raises:
            InfrastructureError: it could not be loaded for a reason that may pass.
        """
        failures: list[Loaded] = []
        while True:
            session = self._session = self._session or self._take(stopping)
            loaded = session.loaded
            assert loaded is not None
            if loaded.isolation is not None or self._refusal is not None:
                return session
            failures.append(loaded)
            if len(failures) == _TRIES:
                self._refusal = _refusal(failures)
                return session
            self._let_go("refused")


class _Call:
    """One call of `Grading.score`: its lines, and their outcomes so far.

    Attributes:
        starved: which outcomes are a `timeout` of a sandbox that got too little of a processor.
    """

    def __init__(
        self,
        payload: bytes,
        lines: int,
        first_index: int,
        label: str,
        stop: Stop | None,
        has_answers: bool = False,
        reads_ids: bool = True,
    ) -> None:
        self._payload = payload
        self._reads_ids = reads_ids
        self._has_answers = has_answers  # in front of each line, and no ids are read
        self._lines = lines
        self._first_index = first_index
        self._label = label
        self._stop = stop
        self._ids: list[str | int | None] = []
        self._split: list[bytes] = []  # the lines, where each is a group
        self.outcomes: list[Outcome | Asked] = []
        self.traces: dict[int, str] = {}
        self.starved: list[int] = []

    @property
    def stopping(self) -> Stopping | None:
        """Says whether the caller wants no more, where it can tell. It is not kept: by a reference to itself, the call
        would hold its payload and outcomes until the garbage is collected, which is seldom.
        """
        return None if self._stop is None else self._wants_no_more

    def _wants_no_more(self) -> bool:
        return self._stop is not None and self._stop(len(self.outcomes))

    @property
    def left(self) -> int:
        """How many lines have no outcome."""
        return self._lines - len(self.outcomes)

    def score(self, session: Session) -> None:
        """Has a sandbox grade what is left. Outcomes that came before an exception count."""
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
                    raise Stopped("the caller wants no more")
        finally:
            self.traces |= decoder.traces

    def score_starved(self, session: Session) -> None:
        """Has a sandbox grade again what got too little of a processor. The outcomes are replaced as they come."""
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
        """Puts none in front of each line, where it has none yet."""
        if not self._has_answers:
            self._ids = read_ids(self._payload, self._lines)
            lines = self._payload.split(b"\n")[: self._lines]
            self._payload = b"".join(_answered(_NO_ANSWERS, line) for line in lines)
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
        """Whether the outcome that came last took too long through no fault of its own."""
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
        """The next line has this outcome."""
        done = len(self.outcomes)
        (identity,) = self._ids_of(done, 1)
        self.outcomes.append(Outcome(self._first_index + done, self._label, None, 0.0, identity, error=error))

    def fail_rest(self, error: OutcomeError) -> None:
        """All lines that are left have this outcome."""
        while self.left:
            self.fail_next(error)

    def _ids_of(self, first: int, number: int) -> list[str | int | None]:
        """Read when the first is wanted: the sandbox is at work then."""
        if not self._ids:
            has_none = self._has_answers or not self._reads_ids
            self._ids = [None] * self._lines if has_none else read_ids(self._payload, self._lines)
        return self._ids[first : first + number]


def _asks(session: Session) -> bool:
    return session.loaded is not None and bool(session.loaded.asks)


def _group_size(line: bytes) -> int:
    """How many threads the group of a line has, which may have answers in front."""
    answers, mark, rest = line.partition(ANSWERED)
    return read_group_size(rest if mark else answers)


def _answered(answers: bytes, line: Line) -> bytes:
    """A line as a grader that asks gets it."""
    return b"".join((answers, ANSWERED, line, b"\n"))


def _unanswered(asked: Asked, label: str) -> Outcome:
    message = "the grader asks, and nobody answers here: score it through a service whose project has what it asks"
    return Outcome(
        asked.index, label, None, asked.run_ms, asked.id, error=OutcomeError("model", message, cause="unknown")
    )


def _verdict(session: Session, error: Ended, tries: int) -> OutcomeError | None:
    """What the thread that was being graded comes to; None where it deserves another sandbox."""
    if session.sandbox.ran_out_of_memory():
        # It may be what the thread before left behind that was too much: by itself this one is tried again.
        return OutcomeError("memory", _MEMORY) if tries >= _TRIES else None
    if error.overdue:
        # The guest ends a completion long before that: here it did not run, or was held up.
        return OutcomeError("timeout", _OVERDUE, retryable=True) if tries >= _TRIES else None
    return OutcomeError("crash", _CRASH) if tries >= (_TRIES if error.tainted else _SILENT_TRIES) else None


def _refusal(failures: list[Loaded]) -> OutcomeError:
    """What each thread comes to of a grader that was valid once, and could not be loaded in several sandboxes.

    Raises:
        InfrastructureError: it took too long, or failed each time in another way. This machine may be too busy.
    """
    found = [failed.checks[-1] for failed in failures]
    ways = {(check.number, check.line, check.message.partition(":")[0]) for check in found}
    if len(ways) > 1 or any(failed.overdue for failed in failures):
        raise InfrastructureError(f"a grader could not be loaded in {len(failures)} sandboxes: {found[-1].message}")
    return OutcomeError("exception", f"the grader could not be loaded: {found[-1].message}")
