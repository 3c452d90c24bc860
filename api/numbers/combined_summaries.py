"""Summaries of the combined outcomes of batches."""

from collections.abc import Sequence

from fastapi import Request

from api.numbers import run_job
from api.numbers.jobs import CombinedJob
from api.numbers.run_job import IsGone
from api.services import Services
from gradebox.schemas import ENDED, Batch, Summary
from storage.outcomes import outcomes
from storage.statistics.kept_results import digest
from storage.store import Store


async def with_combined(request: Request, services: Services, batch: Batch) -> Batch:
    """Returns the batch with the summary of its combined outcomes, if it is over and has some. Of a cancelled batch,
    these are the threads that all graders have scored. Raises ProblemError as `Services.compute` does.
    """
    if not batch.weighted or batch.state not in ENDED:
        return batch
    found = await services.read(request, _kept_now, services.store, batch)  # it waits for no computation
    if found is None:
        found = await services.compute(request, batch.project, _computed, services.store, batch)
    return batch.model_copy(update={"combined": found})


def kept(store: Store, batch_id: str, attempts: Sequence[int]) -> Summary | None:
    """The stored summary of the combined outcomes of these attempts, if there is one."""
    found = store.combined.get(batch_id, digest(attempts))
    return None if found is None else Summary.model_validate_json(found)


def _kept_now(store: Store, batch: Batch) -> Summary | None:
    attempts = store.batches.settled(batch.id)
    return None if attempts is None else kept(store, batch.id, attempts)


def _computed(is_gone: IsGone, store: Store, batch: Batch) -> Summary | None:
    """The summary, which is stored. None if the batch is scored again meanwhile, or was deleted."""
    if (found := _kept_now(store, batch)) is not None:  # another request computed it meanwhile
        return found
    attempts = store.batches.settled(batch.id)
    job = CombinedJob([str(one) for one in batch.graders], [one.weight for one in batch.graders])
    read = outcomes.read(store.batches, batch.id, with_combined=False)
    summary = run_job.run(job, [read], is_gone)
    if attempts is None or store.batches.settled(batch.id) != attempts:  # the outcomes that were read may be mixed
        return None
    store.combined.keep(batch.id, digest(attempts), summary)
    return Summary.model_validate_json(summary)
