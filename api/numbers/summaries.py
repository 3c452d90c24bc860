"""Summaries of batches with their confidence intervals by bootstrap."""

import logging
from typing import NamedTuple

import msgspec

from api.http.problems import ProblemError
from api.numbers import process
from api.numbers.jobs import MOST_SCORES, SummaryJob
from api.numbers.process import IsGone
from gradebox.schemas import Batch, Interval, Summary
from sandbox.errors import InfrastructureError
from storage import kept_intervals, outcomes
from storage.normal_interval import LEVEL
from storage.store import Store

_Bounds = list[tuple[float, float] | None]

_log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """A batch, those of its graders whose intervals are to be by bootstrap, and what these are intervals of."""

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
        return self.batch.model_copy(update={"summary": summary})


def with_kept(store: Store, batch: Batch, resamples: int) -> Batch | None:
    """The batch as `with_bootstrap` gives it; None where that takes the program."""
    wanted = _wanted(store, batch, resamples)
    if not wanted.graders:
        return wanted.batch
    found = store.intervals.get(batch.id, wanted.of)
    return None if found is None else wanted.having(found)


def with_bootstrap(is_gone: IsGone, store: Store, batch: Batch, resamples: int) -> Batch:
    """The batch with intervals by bootstrap in place of normal ones, where it is over, all of its outcomes are there,
    and a grader has at most `MOST_SCORES` scores. Where they cannot be computed, which is logged, it keeps the normal
    ones: they say so.
    """
    if (kept := with_kept(store, batch, resamples)) is not None:
        return kept
    wanted = _wanted(store, batch, resamples)
    try:
        found = _computed(is_gone, store, batch.id, wanted.graders, resamples)
    except (ProblemError, InfrastructureError):
        _log.exception("the confidence intervals of batch %s could not be computed", batch.id)
        return wanted.batch
    if _wanted(store, batch, resamples).of != wanted.of:  # it is scored again, and some of each was read
        return wanted.batch
    store.intervals.keep(batch.id, wanted.of, found)
    return wanted.having(found)


def _wanted(store: Store, batch: Batch, resamples: int) -> _Wanted:
    """`graders` is empty where no interval is to be by bootstrap. The batch is read again: it may have been scored
    again since, and what is kept is of the outcomes that count now.
    """
    attempts = store.batches.settled(batch.id)
    batch = store.batches.get(batch.project, batch.id)
    # What is read of a batch that lacks outcomes ends with the first thread that lacks one: a summary is of all.
    is_whole = attempts is not None and attempts == store.batches.settled(batch.id) and batch.done == batch.total
    if not (is_whole and resamples):
        return _Wanted(batch, [], "", resamples)
    few = [one.grader for one in batch.summary if one.interval is not None and one.scored <= MOST_SCORES]
    return _Wanted(batch, few, kept_intervals.digest(attempts or (), few, resamples), resamples)


def _computed(is_gone: IsGone, store: Store, batch_id: str, graders: list[str], resamples: int) -> _Bounds:
    read = outcomes.read(store.batches, store.spool, batch_id)
    return msgspec.json.decode(process.run(SummaryJob(graders, resamples), [read], is_gone), type=_Bounds)


def _with(one: Summary, bounds: tuple[float, float] | None, resamples: int) -> Summary:
    interval = bounds and Interval(low=bounds[0], high=bounds[1], level=LEVEL, method="bca", resamples=resamples)
    return one.model_copy(update={"interval": interval})
