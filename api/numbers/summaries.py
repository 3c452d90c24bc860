"""Summaries of batches with bootstrap confidence intervals."""

import logging
from typing import NamedTuple

import msgspec

from api.http.problems import ProblemError
from api.numbers import run_job
from api.numbers.jobs import MOST_SCORES, SummaryJob
from api.numbers.run_job import IsGone
from gradebox.schemas import Batch, Interval, Summary
from sandbox.errors import InfrastructureError
from storage.outcomes import outcomes
from storage.statistics import kept_intervals
from storage.statistics.normal_interval import LEVEL
from storage.store import Store

_Bounds = list[tuple[float, float] | None]

_log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """A batch, the graders of it that get a bootstrap interval, and a digest of what these are computed from."""

    batch: Batch
    graders: list[str]
    of: str
    resamples: int

    def having(self, found: _Bounds) -> Batch:
        """The batch with these intervals."""
        bounds = dict(zip(self.graders, found, strict=True))
        summary = [
            _with(one, bounds[one.grader], self.resamples) if one.grader in bounds else one
            for one in self.batch.summary
        ]
        combined = self.batch.combined
        if combined is not None and combined.grader in bounds:
            combined = _with(combined, bounds[combined.grader], self.resamples)
        return self.batch.model_copy(update={"summary": summary, "combined": combined})


def with_kept(store: Store, batch: Batch, resamples: int) -> Batch | None:
    """Returns what `with_bootstrap` does if that is stored or trivial; None if it has to run the program."""
    wanted = _wanted(store, batch, resamples)
    if not wanted.graders:
        return wanted.batch
    found = store.intervals.get(batch.id, wanted.of)
    return None if found is None else wanted.having(found)


def with_bootstrap(is_gone: IsGone, store: Store, batch: Batch, resamples: int) -> Batch:
    """Returns the batch with bootstrap intervals in place of normal ones, for graders with at most `MOST_SCORES`
    scores. The batch has to be over, with all of its outcomes. If the computation fails, which is logged, the batch
    keeps its normal intervals, which are marked as normal.
    """
    if (kept := with_kept(store, batch, resamples)) is not None:
        return kept
    wanted = _wanted(store, batch, resamples)
    try:
        found = _computed(is_gone, store, batch.id, wanted.graders, resamples)
    except (ProblemError, InfrastructureError):
        _log.exception("the confidence intervals of batch %s could not be computed", batch.id)
        return wanted.batch
    if _wanted(store, batch, resamples).of != wanted.of:  # it was scored again, and the outcomes read may be mixed
        return wanted.batch
    store.intervals.keep(batch.id, wanted.of, found)
    return wanted.having(found)


def _wanted(store: Store, batch: Batch, resamples: int) -> _Wanted:
    """Returns what to compute; `graders` is empty if no interval is to be a bootstrap one. The batch is read again,
    because it may have been scored again, and the stored intervals belong to the current outcomes.
    """
    attempts = store.batches.settled(batch.id)
    batch = store.batches.get(batch.project, batch.id)
    if batch.weighted and attempts is not None:
        batch = batch.model_copy(update={"combined": store.combined.get(batch.id, attempts)})
    # Of a cancelled batch, threads that some grader has not scored are not read, but a summary covers all outcomes.
    is_whole = attempts is not None and attempts == store.batches.settled(batch.id) and batch.done == batch.total
    if not (is_whole and resamples):
        return _Wanted(batch, [], "", resamples)
    of = [*batch.summary, *([] if batch.combined is None else [batch.combined])]
    few = [one.grader for one in of if one.interval is not None and one.scored <= MOST_SCORES]
    return _Wanted(batch, few, kept_intervals.digest(attempts or (), few, resamples), resamples)


def _computed(is_gone: IsGone, store: Store, batch_id: str, graders: list[str], resamples: int) -> _Bounds:
    read = outcomes.read(store.batches, store.spool, batch_id)
    return msgspec.json.decode(run_job.run(SummaryJob(graders, resamples), [read], is_gone), type=_Bounds)


def _with(one: Summary, bounds: tuple[float, float] | None, resamples: int) -> Summary:
    interval = bounds and Interval(low=bounds[0], high=bounds[1], level=LEVEL, method="bca", resamples=resamples)
    return one.model_copy(update={"interval": interval})
