"""Scores threads with one grader, in as many sandboxes as necessary."""

import logging
from collections.abc import Callable, Sequence
from time import monotonic

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError, Stopped
from sandbox.grading.channel import Ended, Stopping
from sandbox.grading.grading_call import GradingCall, Line, Stop, answered
from sandbox.grading.outcomes import OUT_OF_MEMORY, Asked
from sandbox.grading.session import Loaded, Session, count_lines

_TRIES = 2  # at one thread, before its failure is attributed to the grader; to load a grader
_SILENT_TRIES = 4  # the same if the sandbox ends without a message: as far as is known, a grader cannot cause that
_OVERDUE = "the sandbox did not answer in time while this thread was graded"
_ORPHANED = "the completion ended or stopped the process that had loaded the grader, each time that it was graded"
_CRASH = "the sandbox ended while this thread was graded, again and again"
_AGAIN = 2  # how often a completion that got too little processor time is graded again
NO_SANDBOX = OutcomeError(
    "infrastructure", "the service lost the sandbox of this thread and had no other: score it again", retryable=True
)

_log = logging.getLogger(__name__)


class Grading:
    """One loaded grader. `take` returns a session that has loaded it; `drop` ends a session and receives the reason.

    Attributes:
        loading: when it began to wait for its first sandbox, and when it had it, by the monotonic clock.
    """

    def __init__(self, take: Callable[[Stopping | None], Session], drop: Callable[[Session, str], None]) -> None:
        self._take = take
        self._drop = drop
        self._session: Session | None = None
        self._refusal: OutcomeError | None = None
        self.traces: dict[int, str] = {}
        self.loading: tuple[float, float] | None = None

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
        call = GradingCall(payload, count, first_index, label, stop)
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
        payload = b"".join(answered(*each) for each in zip(answers, lines, strict=True))
        call = GradingCall(payload, len(lines), 0, label, stop, has_answers=True)
        self._run(call)
        return call.outcomes

    def _run(self, call: GradingCall) -> None:
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

    def _score_all(self, call: GradingCall) -> None:
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
                # A tainted sandbox had already finished that line, unless it was orphaned or crashed.
                in_line = error.orphaned or bool(error.crash) or not is_tainted
                tries = tries + 1 if last == done else int(in_line)
                last = done
                verdict = _verdict(session, error, tries)
                self._drop_session("tainted" if is_tainted else verdict.kind if verdict else "crash")
                if verdict is not None and call.left:
                    call.fail_next(verdict)

    def _score_starved(self, call: GradingCall) -> None:
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
            began = monotonic()
            session = self._session = self._session or self._take(stopping)
            self.loading = self.loading or (began, monotonic())
            loaded = session.loaded
            assert loaded is not None
            if loaded.isolation is not None or self._refusal is not None:
                return session
            failures.append(loaded)
            if len(failures) == _TRIES:
                self._refusal = _refusal(failures)
                return session
            self._drop_session("refused")


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
    return (
        OutcomeError("crash", error.crash or _CRASH) if tries >= (_TRIES if error.tainted else _SILENT_TRIES) else None
    )


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
