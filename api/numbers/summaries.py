"""Summaries of batches with their confidence intervals by bootstrap."""

import logging

import msgspec

from api.http.problems import ProblemError
from api.numbers import process
from api.numbers.jobs import MOST_SCORES, SummaryJob
from gradebox.schemas import Batch, Interval, Summary
from sandbox.errors import InfrastructureError
from storage import kept_intervals, outcomes
from storage.normal_interval import LEVEL
from storage.store import Store

_Bounds = list[tuple[float, float] | None]

_log = logging.getLogger(__name__)


def with_bootstrap(store: Store, batch: Batch, resamples: int) -> Batch:
    """The batch with intervals by bootstrap in place of normal ones, where it is over and a grader has at most
    `MOST_SCORES` scores. Where they cannot be computed, which is logged, it keeps the normal ones: they say so.
    """
    attempts = store.batches.settled(batch.id) if resamples else None
    if attempts is None:
        return batch
    few = [one.grader for one in batch.summary if one.interval is not None and one.scored <= MOST_SCORES]
    if not few:
        return batch
    of = kept_intervals.digest(attempts, resamples)
    found = store.intervals.get(batch.id, of)
    if found is None:
        try:
            found = _computed(store, batch.id, few, resamples)
        except (ProblemError, InfrastructureError):
            _log.exception("the confidence intervals of batch %s could not be computed", batch.id)
            return batch
        if store.batches.settled(batch.id) != attempts:  # it is scored again, and some of each was read
            return batch
        store.intervals.keep(batch.id, of, found)
    bounds = dict(zip(few, found, strict=True))
    summary = [_with(one, bounds[one.grader], resamples) if one.grader in bounds else one for one in batch.summary]
    return batch.model_copy(update={"summary": summary})


def _computed(store: Store, batch_id: str, graders: list[str], resamples: int) -> _Bounds:
    read = outcomes.read(store.batches, store.spool, batch_id)
    return msgspec.json.decode(process.run(SummaryJob(graders, resamples), [read]), type=_Bounds)


def _with(one: Summary, bounds: tuple[float, float] | None, resamples: int) -> Summary:
    interval = bounds and Interval(low=bounds[0], high=bounds[1], level=LEVEL, method="bca", resamples=resamples)
    return one.model_copy(update={"interval": interval})
