"""Statistics over the outcomes of ended batches."""

from typing import Annotated

from fastapi import Query, Request, Response

from api.access.auth import InProject
from api.http.routers import project_router
from api.intake.grader_of_batch import label_of, label_source_of, refuse_feedback
from api.numbers import run_job
from api.numbers.jobs import AgreementJob, ComparisonJob, Job, Side
from api.services import Served, Services
from gradebox.outcome import Spent
from gradebox.schemas import ENDED, Batch
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Comparison
from storage.batches import batch_threads
from storage.errors import Conflict
from storage.outcomes import outcomes

MOST_FLIPS = 1000

Named = Annotated[str | None, Query(description="key or key@version; optional for a batch with one grader")]
Threshold = Annotated[float, Query(allow_inf_nan=False, description="lowest score that passes")]

router = project_router("numbers")


@router.get("/compare", response_model=Comparison)
async def compare(
    request: Request,
    services: Served,
    project: InProject,
    a: Annotated[str, Query(description="id of a batch")],
    b: Annotated[str, Query(description="id of another batch, or of the same one with another grader")],
    grader: Named = None,
    grader_b: Annotated[str | None, Query(description="grader of b, if it differs from that of a")] = None,
    threshold: Threshold = 1.0,
    limit: Annotated[
        int, Query(ge=0, le=MOST_FLIPS, description="maximum number of flipped pairs in the answer")
    ] = 100,
) -> Response:
    """Compare the scores of the same rows in two batches: their mean difference with its interval, and the rows that
    flipped.
    """
    of_a, of_b = await services.read(request, lambda: [_over(services, project, each) for each in (a, b)])
    sides = side(of_a, grader), side(of_b, grader_b or grader)
    job = ComparisonJob(*sides, threshold, limit, services.settings.bootstrap_resamples)
    return await services.compute(request, project, _run, services, job, [(a, False), (b, False)])


@router.get("/batches/{batch_id}/agreement", response_model=Agreement)
async def agreement(
    request: Request,
    services: Served,
    project: InProject,
    batch_id: str,
    label: Annotated[
        str,
        Query(
            description="another grader of the batch or of scores recorded in it, or a field such as `metadata.label`"
        ),
    ],
    grader: Named = None,
    threshold: Annotated[
        float | None, Query(allow_inf_nan=False, description="scores and labels from it on count as 1, others as 0")
    ] = None,
) -> Response:
    """Compute how well a grader agrees with labels, and how its scores correlate with the length of completions."""
    batch = await services.read(request, _over, services, project, batch_id)
    of = side(batch, grader)
    job = AgreementJob(of, label_source_of(batch, label, of.grader), threshold, services.settings.bootstrap_resamples)
    return await services.compute(request, project, _run, services, job, [(batch_id, False), (batch_id, True)])


def _over(services: Services, project: str, batch_id: str) -> Batch:
    batch = services.store.batches.get(project, batch_id)
    refuse_feedback(batch)
    if batch.state not in ENDED:
        raise Conflict(f"batch {batch_id} is {batch.state}: its statistics are computed once it is over")
    return batch


def side(batch: Batch, named: str | None) -> Side:
    """Resolves a grader of a batch. Raises ProblemError if no grader or more than one matches."""
    label = label_of(batch, named)
    summary = next((one for one in batch.summary if one.grader == label), None)
    spent = summary.spent if summary is not None else None
    return Side(batch.id, label, batch.threads, None if spent is None else Spent(**spent.model_dump()))


def _run(is_gone: run_job.IsGone, services: Services, job: Job, streams: list[tuple[str, bool]]) -> Response:
    """Runs a job. `streams`: batches, each with whether to read its threads or else its outcomes."""
    store = services.store
    before = [store.batches.settled(batch) for batch, _ in streams]
    reads = ((batch_threads if threads else outcomes).read(store.batches, batch) for batch, threads in streams)
    found = run_job.run(job, reads, is_gone)
    if None in before or before != [store.batches.settled(batch) for batch, _ in streams]:
        for batch, _ in streams:
            store.batches.standing(batch)  # raises NotFound if it was deleted
        raise Conflict("outcomes of the batch are scored again: its statistics are computed once it is over")
    return Response(found, media_type="application/json")
