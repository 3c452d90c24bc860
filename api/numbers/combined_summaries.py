"""Summaries of the combined outcomes of batches."""

from fastapi import Request

from api.numbers import run_job
from api.numbers.jobs import CombinedJob
from api.numbers.run_job import IsGone
from api.services import Services
from gradebox.schemas import ENDED, Batch, Summary
from storage.outcomes import outcomes
from storage.store import Store


async def with_combined(request: Request, services: Services, batch: Batch) -> Batch:
    """Returns the batch with the summary of its combined outcomes, if it is over and has some. Of a cancelled batch,
    these are the threads that all graders have scored. Raises ProblemError as `Services.compute` does.
    """
    if not batch.weighted or batch.state not in ENDED:
        return batch
    kept = await services.read(request, _kept, services.store, batch)  # it waits for no computation
    if kept is None:
        kept = await services.compute(request, batch.project, _computed, services.store, batch)
    return batch.model_copy(update={"combined": kept})


def _kept(store: Store, batch: Batch) -> Summary | None:
    attempts = store.batches.settled(batch.id)
    return None if attempts is None else store.combined.get(batch.id, attempts)


def _computed(is_gone: IsGone, store: Store, batch: Batch) -> Summary | None:
    """The summary, which is stored. None if the batch is scored again meanwhile, or was deleted."""
    if (kept := _kept(store, batch)) is not None:  # another request computed it meanwhile
        return kept
    attempts = store.batches.settled(batch.id)
    job = CombinedJob([str(one) for one in batch.graders], [one.weight for one in batch.graders])
    read = outcomes.read(store.batches, store.spool, batch.id, with_combined=False)
    found = Summary.model_validate_json(run_job.run(job, [read], is_gone))
    if attempts is None or store.batches.settled(batch.id) != attempts:  # the outcomes that were read may be mixed
        return None
    store.combined.keep(batch.id, attempts, found)
    return found
