"""Scores threads with one grader, through as many sandboxes as it takes."""

from collections.abc import Callable

from gradebox.outcome import ErrorKind, Outcome, OutcomeError
from sandbox.guest.frames import Malformed
from sandbox.outcomes import Decoder
from sandbox.session import Ended, Session, after, count_lines

_TRIES = 2  # at one thread, before a sandbox that ends for no known reason is the grader's doing
_MEMORY = "all processes together wanted more memory than `memory_mb` allows: use less, or raise it"
_OVERDUE = "the sandbox did not answer in time while this thread was graded"
_CRASH = "the sandbox ended while this thread was graded, again and again"


class Grading:
    """One grader, loaded. `take` gives a session that has loaded it; `drop` ends one, and hears why."""

    def __init__(self, take: Callable[[], Session], drop: Callable[[Session, str], None]) -> None:
        self._take = take
        self._drop = drop
        self._session: Session | None = None
        self.traces: dict[int, str] = {}

    @property
    def session(self) -> Session:
        """The session in use. Raises InfrastructureError when none can be had."""
        if self._session is None:
            self._session = self._take()
        return self._session

    def release(self) -> Session | None:
        """Gives up the session, if there is one."""
        session, self._session = self._session, None
        return session

    def score(self, payload: bytes, first_index: int, label: str, lines: int | None = None) -> list[Outcome]:
        """One outcome for each line of JSON, in order, whatever becomes of the sandbox meanwhile.

        Args:
            payload: the lines; the last one may lack its end.
            first_index: the index of the first line's outcome.
            label: what the outcomes call the grader.
            lines: how many there are, where that is known: counting takes longer than moving them.

        Raises:
            InfrastructureError: no sandbox could be had.
        """
        lines = count_lines(payload) if lines is None else lines
        outcomes: list[Outcome] = []
        tries, last = 0, -1
        while len(outcomes) < lines:
            loaded = self.session.loaded
            if loaded is None or loaded.isolation is None:
                return self._all_failed(first_index, lines, label)
            try:
                self._score(payload, lines, first_index, label, outcomes)
            except (Ended, Malformed) as error:
                is_tainted = isinstance(error, Ended) and error.tainted
                tries = tries + 1 if last == len(outcomes) else int(not is_tainted)  # what it gave up over is done
                last = len(outcomes)
                verdict = self._verdict(error, tries)
                self._drop(self.session, verdict.kind if verdict else "tainted" if is_tainted else "crash")
                self._session = None
                if verdict is not None and len(outcomes) < lines:
                    outcomes.append(Outcome(first_index + len(outcomes), label, None, 0.0, error=verdict))
        return outcomes

    def _score(self, payload: bytes, lines: int, first_index: int, label: str, outcomes: list[Outcome]) -> None:
        session = self.session
        session.settle()
        decoder = Decoder(label, session.sandbox.ran_out_of_memory)
        done = len(outcomes)
        rest = payload if done == 0 else after(payload, done)
        for records in session.grade(rest, lines - done):
            outcomes += decoder.decode(records, first_index + len(outcomes))
        self.traces = decoder.traces

    def _verdict(self, error: Exception, tries: int) -> OutcomeError | None:
        """What the thread that was being graded comes to; None where it deserves another sandbox."""
        if self.session.sandbox.ran_out_of_memory():
            # It may be what the thread before left behind that was too much: by itself this one is tried again.
            return OutcomeError("memory", _MEMORY) if tries >= _TRIES else None
        if isinstance(error, Ended) and error.overdue:
            return OutcomeError("timeout", _OVERDUE)
        return OutcomeError("crash", _CRASH) if tries >= _TRIES else None

    def _all_failed(self, first_index: int, lines: int, label: str) -> list[Outcome]:
        """A grader that was valid once and cannot be loaded now: every thread says so, and none is 0.0."""
        loaded = self.session.loaded
        reason = loaded.checks[-1].message if loaded and loaded.checks else "it could not be loaded"
        kind: ErrorKind = "exception"
        error = OutcomeError(kind, f"the grader could not be loaded: {reason}")
        return [Outcome(first_index + number, label, None, 0.0, error=error) for number in range(lines)]
