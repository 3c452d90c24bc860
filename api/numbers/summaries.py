"""Summaries of batches with bootstrap confidence intervals."""

import logging
from typing import NamedTuple

import msgspec
from fastapi import Request

from api.http.problems import ProblemError
from api.numbers import combined_summaries, run_job
from api.numbers.jobs import MOST_SCORES, SummaryJob
from api.numbers.run_job import IsGone
from api.services import Services
from gradebox.schemas import ENDED, Batch, Interval, Summary
from sandbox.errors import InfrastructureError
from storage.outcomes import outcomes
from storage.statistics.kept_results import digest
from storage.statistics.normal_interval import LEVEL
from storage.store import Store

_decode = msgspec.json.Decoder(list[tuple[float, float] | None]).decode
_log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """A batch, the graders of it that get a bootstrap interval, and a digest of what these are computed from."""

    batch: Batch
    graders: list[str]
    of: str
    resamples: int

    def kept(self, store: Store) -> Batch | None:
        """The batch with its stored intervals, or as it is if no grader gets one. None if they are not stored."""
        if not self.graders:
            return self.batch
        found = store.intervals.get(self.batch.id, self.of)
        return None if found is None else self.having(found)

    def having(self, found: bytes) -> Batch:
        """The batch with the intervals that a job found."""
        bounds = dict(zip(self.graders, _decode(found), strict=True))
        summary = [
            _with(one, bounds[one.grader], self.resamples) if one.grader in bounds else one
            for one in self.batch.summary
        ]
        combined = self.batch.combined
        if combined is not None and combined.grader in bounds:
            combined = _with(combined, bounds[combined.grader], self.resamples)
        return self.batch.model_copy(update={"summary": summary, "combined": combined})


async def with_bootstrap(request: Request, services: Services, batch: Batch) -> Batch:
    """Returns the batch, if it is over with all of its outcomes, with bootstrap intervals in place of normal ones, for
    graders with at most `MOST_SCORES` scores. If the computation fails, which is logged, the batch keeps its normal
    intervals, which are marked as normal. Raises ProblemError as `Services.compute` does.
    """
    if batch.state not in ENDED:
        return batch
    of = services.store, batch, services.settings.bootstrap_resamples
    found = await services.read(request, _kept, *of)  # it waits for no computation
    return await services.compute(request, batch.project, _computed, *of) if found is None else found


def _kept(store: Store, batch: Batch, resamples: int) -> Batch | None:
    return _wanted(store, batch, resamples).kept(store)


def _computed(is_gone: IsGone, store: Store, batch: Batch, resamples: int) -> Batch:
    wanted = _wanted(store, batch, resamples)
    if (kept := wanted.kept(store)) is not None:  # another request computed them meanwhile
        return kept
    job, read = SummaryJob(wanted.graders, resamples), outcomes.read(store.batches, batch.id)
    try:
        found = run_job.run(job, [read], is_gone)
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
        batch = batch.model_copy(update={"combined": combined_summaries.kept(store, batch.id, attempts)})
    # Of a cancelled batch, threads that some grader has not scored are not read, but a summary covers all outcomes.
    is_whole = attempts is not None and attempts == store.batches.settled(batch.id) and batch.done == batch.total
    if not (is_whole and resamples):
        return _Wanted(batch, [], "", resamples)
    of = [*batch.summary, *([] if batch.combined is None else [batch.combined])]
    few = [one.grader for one in of if one.interval is not None and one.scored <= MOST_SCORES]
    return _Wanted(batch, few, digest(attempts, few, resamples), resamples)


def _with(one: Summary, bounds: tuple[float, float] | None, resamples: int) -> Summary:
    interval = bounds and Interval(low=bounds[0], high=bounds[1], level=LEVEL, method="bca", resamples=resamples)
    return one.model_copy(update={"interval": interval})
