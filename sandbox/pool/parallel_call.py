"""Scores the threads of one call in several sandboxes at once, if they take long: the caller waits for all of them, as
a training step does whose grader runs programs for seconds.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from time import monotonic

from msgspec.structs import replace

from gradebox.outcome import Outcome
from sandbox.errors import Busy, InfrastructureError, Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.grading.grading_call import Stop
from sandbox.grading.slice_size import SliceSize
from sandbox.kernel.usage import processor_count
from sandbox.pool.pool import Pool

_log = logging.getLogger(__name__)
_ALONE_S = 1.0  # a call that is over by then, or probably as long after it, has one sandbox


class ParallelCall:
    """One call. The caller's thread scores from the first line on. After a second, other sandboxes score from the last
    line on, until they meet: as many as there are processors without a sandbox. They end if another call needs one.
    """

    def __init__(self, pool: Pool, source: GraderSource, lines: Sequence[bytes], label: str, stop: Stop) -> None:
        self._pool = pool
        self._source = source
        self._lines = lines
        self._label = label
        self._stop = stop
        self._began = 0.0
        self._others: list[Future[None]] = []
        self._lock = threading.Lock()
        self._done = 0  # lines that the caller's thread has scored
        self._end = len(lines)  # from this line on, others score
        self._outcomes: dict[int, Outcome] = {}  # of the others

    def score(self, grading: Grading) -> list[Outcome]:
        """Returns outcomes as `Grading.score` does: of all lines, or of the first ones if `stop` returned True. The
        caller's thread uses `grading`.
        """
        count = len(self._lines)
        try:
            grading.load(lambda: self._stop(0))  # takes as long in each sandbox, so the clock starts after it
        except Stopped:
            return []
        self._began = monotonic()
        with ThreadPoolExecutor(processor_count()) as threads:
            try:
                found = grading.score(
                    b"\n".join(self._lines), 0, self._label, count, stop=lambda done: self._is_enough(done, threads)
                )
            finally:
                self._end = 0  # the others finish what they have
        for other in self._others:
            other.result()
        return self._joined(found, grading) if self._others else found

    def _joined(self, own: list[Outcome], grading: Grading) -> list[Outcome]:
        """The outcomes of all threads, in order. `own` are those of the caller's thread."""
        kept = dict(enumerate(own))
        good = {place: one for place, one in kept.items() if one.error is None or not one.error.retryable}
        if len(own) < len(self._lines):
            kept = good  # it was stopped before it could score again what a busy machine spoilt
        self._outcomes = kept | self._outcomes | good
        left = [place for place in range(len(self._lines)) if place not in self._outcomes]
        if left and not self._stop(len(self._outcomes)):  # another sandbox failed
            self._score(grading, left)
        found: list[Outcome] = []
        while (one := self._outcomes.get(len(found))) is not None:
            found.append(one)
        return found

    def _is_enough(self, done: int, threads: ThreadPoolExecutor) -> bool:
        """Whether the caller's thread is to stop. It calls this for each outcome, and each 0.25 s."""
        with self._lock:
            self._done = done
            if self._stop(done) or self._end <= done < len(self._lines):
                return True
        if not self._others and self._is_long(done):
            self._others = [threads.submit(self._help) for _ in range(self._pool.spare_processors())]
        return False

    def _is_long(self, done: int) -> bool:
        spent = monotonic() - self._began
        return spent > _ALONE_S and spent * (len(self._lines) - done) > _ALONE_S * done

    def _help(self) -> None:
        """Scores lines from the end in one more sandbox."""
        size = SliceSize(first=1)
        try:
            with self._pool.grading(self._source, place_s=0.0) as grading:
                grading.load(lambda: self._stop(0))
                while self._pool.spare_processors() >= 0 and (places := self._take(size.lines)):
                    began = monotonic()
                    self._score(grading, places)
                    size.took(len(places), monotonic() - began)
        except (Busy, Stopped):
            return
        except (InfrastructureError, OSError) as error:
            _log.warning("a call lost one of its sandboxes and goes on without: %s", error)

    def _take(self, most: int) -> range:
        """Takes lines from the end, at most this many, and fewer when few are left, so that all end together."""
        with self._lock:
            left = max(0, self._end - self._done - 1)  # the caller's thread has one
            taken = min(most, ceil(left / (2 * (len(self._others) + 1))))
            self._end -= taken
            return range(self._end, self._end + taken)

    def _score(self, grading: Grading, places: Sequence[int]) -> None:
        payload = b"\n".join(self._lines[place] for place in places)
        found = grading.score(payload, 0, self._label, len(places), stop=self._stop)
        self._outcomes |= {place: replace(one, index=place) for place, one in zip(places, found, strict=False)}
