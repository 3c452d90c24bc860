"""Scores threads with one grader, in as many sandboxes as necessary."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError, Stopped
from sandbox.grading.channel import Ended, Stopping
from sandbox.grading.outcomes import OUT_OF_MEMORY, Asked, Decoder
from sandbox.grading.session import Loaded, Session, after, count_lines
from sandbox.grading.thread_ids import read_group_size, read_ids
from sandbox.guest.protocol.frames import ANSWERED

Line = bytes | memoryview
Stop = Callable[[int], bool]
"""Receives the number of outcomes that a call has so far; returns True to cancel the call."""

_TRIES = 2  # at one thread, before its failure is attributed to the grader; to load a grader
_SILENT_TRIES = 4  # the same if the sandbox ends without a message: as far as is known, a grader cannot cause that
_OVERDUE = "the sandbox did not answer in time while this thread was graded"
_ORPHANED = "the completion ended or stopped the process that had loaded the grader, each time that it was graded"
_CRASH = "the sandbox ended while this thread was graded, again and again"
_NO_ANSWERS = b"[]"
_AGAIN = 2  # how often a completion that got too little processor time is graded again
_STARVED = "But it got a processor for {used:.1f} of {seconds:.1f} s, since the machine was busy: score it again."
NO_SANDBOX = OutcomeError(
    "infrastructure", "the service lost the sandbox of this thread and had no other: score it again", retryable=True
)

_log = logging.getLogger(__name__)


class Grading:
    """One loaded grader. `take` returns a session that has loaded it; `drop` ends a session and receives the reason.

    Attributes:
        reads_ids: whether outcomes get the ids of their threads; reading them is a waste of time if the caller has
            them.
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
        """The session in use. Raises InfrastructureError if none is available."""
        self.load()
        assert self._session is not None
        return self._session

    def load(self, stopping: Stopping | None = None) -> Loaded:
        """Returns the result of loading the grader in the session in use. A doubtful one is confirmed in another one.

        Raises:
            InfrastructureError: no session is available.
            Stopped: `stopping` returned True.
        """
        tries = 0
        while self._session is None:
            session = self._take(stopping)
            tries += 1
            if session.loaded is not None and session.loaded.doubtful and tries < _TRIES:
                self._drop(session, "refused")
            else:
                self._session = session
        assert self._session.loaded is not None
        return self._session.loaded

    def release(self) -> Session | None:
        """Detaches the session and returns it, if there is one."""
        session, self._session = self._session, None
        return session

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """Returns one outcome for each line of JSON, in order, even if sandboxes fail meanwhile.

        Args:
            payload: the lines; the last one may lack its newline.
            first_index: the index of the first line's outcome.
            label: the name of the grader in the outcomes.
            lines: the number of lines, if it is known: counting takes longer than moving them.
            stop: called at least each 0.25 s while waiting for a sandbox, and after each group of outcomes but the
                last. If it returns True, the sandbox is ended at once, and the outcomes so far are returned.

        Raises:
            InfrastructureError, OSError: no sandbox is available, or none could load the grader for a reason that may
                pass, and there is no outcome yet. If there are outcomes, the remaining ones are of kind
                `infrastructure`.
        """
        count = count_lines(payload) if lines is None else lines
        call = _Call(payload, count, first_index, label, stop, reads_ids=self.reads_ids)
        self._run(call)
        return [_unanswered(each, label) if isinstance(each, Asked) else each for each in call.outcomes]

    def step(
        self, lines: Sequence[Line], answers: Sequence[bytes], label: str, *, stop: Stop | None = None
    ) -> list[Outcome | Asked]:
        """Runs a grader that asks, once on each line, with the known answers. Indices count from 0.

        Args:
            lines: one thread each, without its newline.
            answers: for each line, as `Replay` reads them.
            label: see `score`.
            stop: see `score`.

        Raises the same exceptions as `score`.
        """
        payload = b"".join(_answered(*each) for each in zip(answers, lines, strict=True))
        call = _Call(payload, len(lines), 0, label, stop, has_answers=True)
        self._run(call)
        return call.outcomes

    def _run(self, call: "_Call") -> None:
        """Scores a call. Raises the same exceptions as `score`."""
        try:
            self._score_all(call)
            self._score_starved(call)
        except Stopped:
            self._drop_session("abandoned")
        except (InfrastructureError, OSError) as error:  # OSError: this machine has no space or no descriptors left
            self._drop_session("abandoned")
            if not call.outcomes:
                raise
            _log.warning("%d of %d threads have no sandbox left: %s", call.left, len(call.outcomes) + call.left, error)
            call.fail_rest(NO_SANDBOX)
        except BaseException:
            self._drop_session("abandoned")  # what it still sends would be read as the answer to another call
            raise
        self.traces = call.traces

    def _drop_session(self, why: str) -> None:
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
                # A tainted sandbox had already finished that line, unless it was orphaned.
                tries = tries + 1 if last == done else int(error.orphaned or not is_tainted)
                last = done
                verdict = _verdict(session, error, tries)
                self._drop_session("tainted" if is_tainted else verdict.kind if verdict else "crash")
                if verdict is not None and call.left:
                    call.fail_next(verdict)

    def _score_starved(self, call: "_Call") -> None:
        """Grades again the completions that timed out while other processes used the processors."""
        for _ in range(_AGAIN):
            if not call.starved:
                return
            session = self._load(call.stopping)
            if self._refusal is not None:
                return
            try:
                call.score_starved(session)
            except Ended as error:
                _log.warning("a sandbox ended while it graded completions again: %s", error)
                self._drop_session("crash")

    def _load(self, stopping: Stopping | None) -> Session:
        """Returns a session that has loaded the grader, or that has confirmed that it cannot be loaded; then `_refusal`
        is set.

        Raises:
            InfrastructureError: the grader could not be loaded for a reason that may pass.
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
            self._drop_session("refused")


class _Call:
    """One call of `Grading.score`: its lines, and their outcomes so far.

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
        reads_ids: bool = True,
    ) -> None:
        self._payload = payload
        self._reads_ids = reads_ids
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
            has_none = self._has_answers or not self._reads_ids
            self._ids = [None] * self._lines if has_none else read_ids(self._payload, self._lines)
        return self._ids[first : first + number]


def _asks(session: Session) -> bool:
    return session.loaded is not None and bool(session.loaded.asks)


def _group_size(line: bytes) -> int:
    """The number of threads in the group of a line, which may start with answers."""
    answers, mark, rest = line.partition(ANSWERED)
    return read_group_size(rest if mark else answers)


def _answered(answers: bytes, line: Line) -> bytes:
    """A line in the form that a grader with asks receives."""
    return b"".join((answers, ANSWERED, line, b"\n"))


def _unanswered(asked: Asked, label: str) -> Outcome:
    message = (
        "the grader asks, which cannot be answered here: score it through a service whose project has what it asks"
    )
    return Outcome(
        asked.index, label, None, asked.run_ms, asked.id, error=OutcomeError("model", message, cause="unknown")
    )


def _verdict(session: Session, error: Ended, tries: int) -> OutcomeError | None:
    """The error of the thread that was being graded; None if it is to be tried in another sandbox."""
    if session.sandbox.ran_out_of_memory():
        # The thread before may have left too much behind: this one is tried again as the first of a sandbox.
        return OutcomeError("memory", OUT_OF_MEMORY) if tries >= _TRIES else None
    if error.overdue:
        # The guest ends a completion long before that, so here the guest did not run or was delayed.
        return OutcomeError("timeout", _OVERDUE, retryable=True) if tries >= _TRIES else None
    if error.orphaned:
        # The cause may be an earlier completion, or outside: this one is tried again as the first of a sandbox.
        return OutcomeError("crash", _ORPHANED) if tries >= _TRIES else None
    return OutcomeError("crash", _CRASH) if tries >= (_TRIES if error.tainted else _SILENT_TRIES) else None


def _refusal(failures: list[Loaded]) -> OutcomeError:
    """The error of each thread if a grader that was valid once could not be loaded in several sandboxes.

    Raises:
        InfrastructureError: loading took too long, ended without a reason, or failed in different ways. This machine
            may be too busy, or lack memory.
    """
    found = [failed.checks[-1] for failed in failures]
    ways = {(check.number, check.line, check.message.partition(":")[0]) for check in found}
    if len(ways) > 1 or any(failed.overdue or failed.doubtful for failed in failures):
        raise InfrastructureError(f"a grader could not be loaded in {len(failures)} sandboxes: {found[-1].message}")
    return OutcomeError("exception", f"the grader could not be loaded: {found[-1].message}")
