"""Scores of a batch that are recorded by people or other programs."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response

from api.access.auth import ScoresIn
from api.access.callers import gone
from api.http import openapi
from api.http.routers import project_router
from api.intake import batch_upload, bodies, score_upload
from api.numbers.run_job import IsGone
from api.services import Served, Services
from gradebox.limits import REQUEST_BYTES
from gradebox.schemas import Batch
from storage.batches import batch_threads
from storage.errors import Conflict, NotFound, PayloadLost

router = project_router("batches", "/batches")

_BODY = openapi.bytes_of("application/x-ndjson", 'a score a line: {"id": "a", "score": 1, "reason": "why"}')


@router.put("/{batch_id}/scores", response_model=Batch, openapi_extra=_BODY)
async def record(
    request: Request,
    services: Served,
    project: ScoresIn,
    batch_id: str,
    grader: Annotated[str, Query(max_length=80, description="grader of kind `custom`: key or key@version")],
) -> Response:
    """Record scores of a batch's threads as outcomes of a grader of kind `custom`: all of them, or none. An existing
    score of the same thread is replaced.
    """
    if bodies.media_type(request) not in bodies.JSON_LINES_TYPES:
        raise bodies.unsupported(request, "application/x-ndjson")
    body = await bodies.read(request, REQUEST_BYTES, "send the rest in another request")
    found = await services.compute(request, project, _record, services, project, batch_id, grader, body)
    return Response(found.model_dump_json(), media_type="application/json")


def _record(is_gone: IsGone, services: Services, project: str, batch_id: str, grader: str, body: bytes) -> Batch:
    store = services.store
    batch = store.batches.get(project, batch_id, summary=False)
    label = _label(services, project, grader)
    threads = _wanted(batch_threads.read(store.batches, batch_id), is_gone)
    try:
        scores = score_upload.read(body, services.pool.settings.text_bytes)
        outcomes = score_upload.outcomes_of(scores, label, batch.threads, threads)
    except PayloadLost as error:
        raise NotFound(f"the threads of batch {batch_id!r} no longer exist: nothing was recorded") from error
    store.recorded.record(project, batch_id, outcomes)
    return store.batches.get(project, batch_id)


def _wanted(blocks: Iterator[bytes], is_gone: IsGone) -> Iterator[bytes]:
    """The threads, which may be gigabytes, as long as the client waits."""
    for block in blocks:
        if is_gone():
            raise gone()
        yield block
    if is_gone():
        raise gone()


def _label(services: Services, project: str, grader: str) -> str:
    """The label of the grader in outcomes. Raises NotFound, and Conflict if the grader is not of kind `custom`."""
    named = batch_upload.named(grader)
    try:
        version = services.store.graders.version(project, named.key, named.version)
    except NotFound as error:
        if named.version is not None:
            raise
        raise NotFound(f"{error}. `gradebox graders create {named.key} --kind custom` creates one") from error
    if version.kind != "custom":
        raise Conflict(
            f"grader {named.key!r} is of kind {version.kind!r}, which computes its scores itself: record scores with a "
            'grader of kind `custom`, which `client.graders.create.custom(key="human")` creates'
        )
    return f"{named.key}@{version.number}"
