"""One unit of work: the lines of one chunk, scored by one grader."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import monotonic

import msgspec
import structlog

from gradebox.outcome import Outcome, OutcomeError, read_outcomes
from models.scoring.asking_scorer import AskingScorer
from runtime import tracing
from sandbox.errors import InfrastructureError, Unusable
from sandbox.grading.thread_ids import read_ids
from storage.batch_plan import PlannedGrader
from storage.errors import OutcomesLost, PayloadLost
from storage.outcomes.retries import is_retryable
from storage.queue.leases import Lease
from storage.spool.chunks import Chunk
from storage.statistics.outcome_tally import Tally, tally
from storage.store import Store
from worker.context import WorkerContext
from worker.loaded_grader import GraderCache, LoadedGrader
from worker.unit_watch import UnitWatch

_encoder = msgspec.json.Encoder()
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_TRIED = (
    "the service tried {tries} times to score this thread and never finished: the log of its workers says why. Try it "
    "again later"
)
_NO_ROOM = (
    "the project's batches take as much room as they may, so this thread was not scored: delete some batches and send "
    "it again, or have the operator raise GRADEBOX_PROJECT_SPOOL_GB"
)
_NEW_BUILD = "and send this thread again in a new batch: a retry keeps the version of the grader, and its build"
_CANCELLED = "the batch was cancelled before this thread was scored: send it again in a new batch"
_log = structlog.get_logger(__name__)


class Scored(msgspec.Struct, frozen=True):
    """The outcomes of one unit that are not written yet. They are encoded, which takes a third of the memory of the
    objects.
    """

    lease: Lease
    grader_number: int
    project: str
    grader: str
    """The grader's key."""
    label: str
    """The grader's name in the outcomes."""
    lines: bytes
    outcomes: int
    """The number of outcomes in `lines`."""
    counted: Tally
    """The tally of the outcomes that do not count yet: if the unit is scored again, of those that were retryable."""
    seconds: float
    """The time that scoring took."""
    whole: bool = True
    """Whether these are all outcomes of the unit; if not, the next attempt continues after them."""


def score(context: WorkerContext, cache: GraderCache, lease: Lease, watch: UnitWatch) -> Scored | None:
    """Scores a unit, or as much of it as `watch` allows. None if there is nothing new to keep: the batch has ended, the
    lease was lost, or the worker is stopping.

    Raises:
        InfrastructureError: no sandbox is available.
        PayloadLost: the spool no longer has the threads.
        OutcomesLost: the unit is to be scored again, and the spool no longer has its outcomes.
        OSError: the spool is not readable.
        RedisError: Redis does not answer.
    """
    began = monotonic()
    plan = cache.plan(lease.batch)
    if plan is None:
        return None
    number, chunk = plan.unit(lease.unit)
    scorer = plan.scorers[number]
    values: tracing.Values = {
        "gradebox.batch": lease.batch,
        "gradebox.chunk": lease.unit,
        "gradebox.grader": scorer.label,
    }
    with tracing.span("score chunk", "consumer", plan.trace, values):
        unit = _Unit(context.store, cache, lease, watch, scorer, chunk)
        kept, outcomes = unit.kept()
        before = len(outcomes)
        reason = _why_given_up(context.store, cache, lease, plan.project)
        if lease.earlier:
            rest = unit.score_again(outcomes, reason)
            if rest is None:
                return None
            new, again, places = rest
            outcomes += again
            counted = tally([outcomes[place] for place in places if place < len(outcomes)])
        else:
            if reason is None:
                try:
                    if not unit.score(outcomes):
                        return None
                except Unusable as error:
                    if lease.tries < context.store.leases.attempts:
                        raise  # a worker on another machine may still have the packages
                    reason = f"{error}, {_NEW_BUILD}"
            if reason is not None:
                outcomes += unit.given_up(len(outcomes), reason)
            new, counted = _encoder.encode_lines(outcomes[before:]), tally(outcomes)
    if len(outcomes) == before < chunk.lines:
        return None
    done, whole = len(outcomes), len(outcomes) == chunk.lines
    seconds = monotonic() - began
    return Scored(lease, number, plan.project, scorer.key, scorer.label, kept + new, done, counted, seconds, whole)


def _why_given_up(store: Store, cache: GraderCache, lease: Lease, project: str) -> str | None:
    """The error message for the outcomes of a unit that is given up; None if the unit is to be scored."""
    if lease.tries > store.leases.attempts:
        return _TRIED.format(tries=lease.tries - 1)
    return None if cache.has_room(project) else _NO_ROOM


@dataclass(frozen=True)
class _Unit:
    """The lines of `chunk`, to be scored by `scorer` as far as `watch` allows."""

    store: Store
    cache: GraderCache
    lease: Lease
    watch: UnitWatch
    scorer: PlannedGrader
    chunk: Chunk

    def kept(self) -> tuple[bytes, list[Outcome]]:
        """The outcomes that an earlier attempt has kept, encoded and as objects."""
        lease = self.lease
        if lease.part is None:
            return b"", []
        try:
            with self.store.spool.open_outcomes(lease.batch, lease.unit, lease.part.attempt) as file:
                lines = file.read()
            outcomes = read_outcomes(lines)
        except (OSError, *_UNREADABLE) as error:
            if not isinstance(error, FileNotFoundError) and self._may_pass(error):
                raise
            _log.warning(
                "the finished outcomes of a chunk are lost, scoring it from the start",
                lease=str(lease),
                error=str(error),
            )
            return b"", []
        if len(outcomes) != lease.part.outcomes:
            _log.warning(
                "the finished outcomes of a chunk are cut off, scoring it from the start",
                lease=str(lease),
                outcomes=len(outcomes),
            )
            return b"", []
        return lines, outcomes

    def score(self, outcomes: list[Outcome], places: list[int] | None = None) -> bool:
        """Appends the missing outcomes of all lines, or of those at these places of the chunk, numbered from 0. False
        if they are not wanted any more.
        """
        loaded = self.cache.load(self.lease, self.scorer)
        if loaded is None:
            return False
        chunk, payload = self._lines(places)
        done = len(outcomes)
        for first, lines, piece in _slices(loaded, payload, chunk, done):
            stop = partial(_is_enough, self.watch, first)
            outcomes += loaded.grading.score(piece, chunk.first_index + first, self.scorer.label, lines, stop=stop)
            if (failed := _failed_here(outcomes, first)) is not None:
                # The service failed in the middle of a piece: keep the outcomes before the failure, and retry the rest.
                if failed == done:
                    raise InfrastructureError("no sandbox was left for the rest of a chunk")
                del outcomes[failed:]
                return True
            if len(outcomes) < chunk.lines:
                self.watch.is_enough(len(outcomes))
                if self.watch.over:
                    return self.watch.cancelled and self._fill_up(outcomes, loaded)
                if self.watch.leaving:
                    return True
            if len(outcomes) != first + lines:
                raise InfrastructureError(f"{len(outcomes) - first} outcomes came back for {lines} threads")
        return True

    def _fill_up(self, outcomes: list[Outcome], loaded: LoadedGrader) -> bool:
        """Completes the unit of a cancelled batch if its grader asks, because its outcomes are paid for: adds those
        that follow an unfinished thread, and an error for each unfinished thread. False if there are no outcomes.

        A unit counts only as a whole: its file has a line for each of its threads.
        """
        if not isinstance(loaded.grading, AskingScorer):
            return False
        later = {one.index: one for one in loaded.grading.later}
        if not outcomes and not later:
            return False
        outcomes += [later.get(one.index, one) for one in self.given_up(len(outcomes), _CANCELLED)]
        return True

    def _lines(self, places: list[int] | None) -> tuple[Chunk, bytes]:
        payload = self.store.spool.read_payload(self.lease.batch, self.chunk.offset, self.chunk.length)
        if places is None:
            return self.chunk, payload
        threads = payload.split(b"\n")
        payload = b"".join(threads[place] + b"\n" for place in places)
        return Chunk(0, len(payload), 0, len(places)), payload

    def score_again(self, kept: list[Outcome], given_up: str | None) -> tuple[bytes, list[Outcome], list[int]] | None:
        """Scores the retryable outcomes again.

        Returns the outcomes after those in `kept`, encoded and as objects, and the places of all retryable outcomes of
        the unit. The retryable outcomes are replaced by new ones; the others stay the same to the byte. All stay the
        same if the unit is given up. Returns None if the outcomes are not wanted any more.
        """
        lines, outcomes = self._earlier()
        places = [place for place in range(self.chunk.lines) if is_retryable(outcomes[place])]
        before = len(kept)
        again = [kept[place] for place in places if place < before]
        had = len(again)
        reached = self.chunk.lines
        if given_up is not None:
            _log.warning("a chunk is not scored again", lease=str(self.lease), reason=given_up)
        elif had < len(places):
            if not self.score(again, places):
                return None
            if len(again) < len(places):
                reached = places[len(again)] if len(again) > had else before
        for place, outcome in zip(places[had:], again[had:], strict=False):
            outcomes[place] = msgspec.structs.replace(outcome, index=self.chunk.first_index + place)
            lines[place] = _encoder.encode_lines([outcomes[place]])
        return b"".join(lines[before:reached]), outcomes[before:reached], places

    def _earlier(self) -> tuple[list[bytes], list[Outcome]]:
        """The outcomes that count so far, encoded and as objects."""
        lease = self.lease
        try:
            with self.store.spool.open_outcomes(lease.batch, lease.unit, lease.earlier) as file:
                lines = file.read().splitlines(keepends=True)
            outcomes = read_outcomes(b"".join(lines))
        except (OSError, *_UNREADABLE) as error:
            if self._may_pass(error):
                raise
            raise OutcomesLost(f"the outcomes of unit {lease.unit} cannot be read: {error}") from error
        if len(outcomes) != self.chunk.lines:
            raise OutcomesLost(f"unit {lease.unit} has {len(outcomes)} outcomes of {self.chunk.lines}")
        return lines, outcomes

    def _may_pass(self, error: Exception) -> bool:
        """Whether to try again after this error of a read: perhaps only this worker cannot read the spool, or only now.
        A file that cannot be read for good would keep its batch from ending.
        """
        return isinstance(error, OSError) and self.lease.tries <= self.store.leases.attempts

    def given_up(self, done: int, message: str) -> list[Outcome]:
        """An error for each line after the first `done`."""
        chunk = self.chunk
        error = OutcomeError("infrastructure", message, retryable=True)
        try:
            ids = read_ids(self.store.spool.read_payload(self.lease.batch, chunk.offset, chunk.length), chunk.lines)
        except (PayloadLost, OSError) as lost:
            _log.warning("the outcomes of an abandoned chunk lack their ids", lease=str(self.lease), error=str(lost))
            ids = [None] * chunk.lines
        return [
            Outcome(chunk.first_index + number, self.scorer.label, None, 0.0, ids[number], error=error)
            for number in range(done, chunk.lines)
        ]


def _failed_here(outcomes: list[Outcome], first: int) -> int | None:
    """The place of the first infrastructure error among the outcomes from `first` on; None if there is none."""
    for number in range(first, len(outcomes)):
        error = outcomes[number].error
        if error is not None and error.kind == "infrastructure":
            return number
    return None


def _is_enough(watch: UnitWatch, before: int, outcomes: int) -> bool:
    return watch.is_enough(before + outcomes)


def _slices(loaded: LoadedGrader, payload: bytes, chunk: Chunk, done: int) -> Iterator[tuple[int, int, bytes]]:
    """Slices of the lines after the first `done`: the place of the first line, the number of lines, and their bytes."""
    start = _end_of(payload, 0, done)
    while done < chunk.lines:
        began = monotonic()
        most = chunk.lines if loaded.asks else loaded.slice_size.lines  # all threads wait in parallel
        lines = min(most, chunk.lines - done)
        end = _end_of(payload, start, lines) if lines < chunk.lines - done else len(payload)
        yield done, lines, payload[start:end]
        loaded.slice_size.took(lines, monotonic() - began)
        start, done = end, done + lines


def _end_of(payload: bytes, start: int, lines: int) -> int:
    """The offset of the end of `lines` lines from `start` on."""
    end = start
    for _ in range(lines):
        end = payload.find(b"\n", end) + 1
        if end == 0:
            return len(payload)
    return end
