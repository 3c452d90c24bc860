"""Batches: create, watch, read, cancel and delete them."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Annotated

import msgspec
import structlog
from anyio import current_time, move_on_at
from anyio.to_thread import run_sync
from fastapi import Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field, TypeAdapter

from api.access.auth import InProject, ScoresIn, key_of, require
from api.access.callers import WaitingClient
from api.http import openapi
from api.http.problems import invalid
from api.http.routers import project_router
from api.intake import batch_upload, bodies
from api.intake.idempotency import Repeatable
from api.numbers.combined_summaries import with_combined
from api.numbers.run_job import IsGone
from api.numbers.summaries import with_bootstrap
from api.services import Served, Services
from gradebox.schemas import ENDED, Batch, Replies
from gradebox.schemas.outcome_table import MOST_PICKED
from storage.batches import batch_threads
from storage.batches.batches import Batches
from storage.idempotency import Once
from storage.outcomes import outcomes
from storage.spool.blocks import BLOCK_BYTES
from storage.spool.chunks import MAX_BATCH_LINES

LONGEST_WAIT_S = 30
PAGE = 50

Read = Callable[[Batches, str], Iterator[bytes]]
"""Yields lines of a batch."""

Index = Annotated[int, Field(ge=0, lt=MAX_BATCH_LINES)]
After = Annotated[int, Query(ge=-1, description="only threads after this index, counted from 0")]
Limit = Annotated[int | None, Query(ge=1, le=MAX_BATCH_LINES, description="maximum number of threads")]
AcceptEncoding = Annotated[str, Header()]

_BATCHES = TypeAdapter(list[Batch])
_log = structlog.get_logger(__name__)
router = project_router("batches", "/batches")


class BatchChanges(msgspec.Struct, forbid_unknown_fields=True):
    """The changeable fields of a batch."""

    kept: bool


@router.post("", status_code=202, openapi_extra=openapi.body(batch_upload.NewBatch, also=openapi.JSON_LINES))
async def create(
    request: Request,
    services: Served,
    project: ScoresIn,
    repeat: Repeatable,
    grader: Annotated[list[str], Query(description="key or key@version; for JSON lines")] = [],  # noqa: B006  # FastAPI copies it
    weight: Annotated[list[float], Query(description="one weight for each grader, in the same order")] = [],  # noqa: B006  # as above
    budget_usd: Annotated[
        float | None, Query(ge=0, le=batch_upload.MOST_USD, description="maximum cost of its asks, in USD")
    ] = None,
    budget_tokens: Annotated[
        int | None, Query(ge=0, le=batch_upload.MOST_TOKENS, description="maximum input and output tokens of its asks")
    ] = None,
    replies: Annotated[
        Replies, Query(description="`kept`: kept replies may answer its asks, and new ones are kept; `new`: neither")
    ] = "kept",
) -> Batch:
    """Create a batch of threads to be scored. The response confirms that they are stored durably."""
    has_budget = budget_usd is not None or budget_tokens is not None
    budget = batch_upload.BudgetOfBatch(usd=budget_usd, tokens=budget_tokens)
    terms = batch_upload.terms_of(budget if has_budget else None, replies)
    arrival = batch_upload.Arrival(services, project, services.limits_for(request), key_of(request).id, repeat)
    if bodies.media_type(request) in bodies.JSON_LINES_TYPES:
        return await arrival.take_lines(request, batch_upload.weighted(grader, weight), terms)
    if bodies.media_type(request) == "application/json":
        if grader or weight or has_budget or replies != "kept":
            raise invalid("a JSON body has `graders`, `budget` and `replies`: leave `grader` and such out of the query")
        return await arrival.take_body(request)
    raise bodies.unsupported(request, "application/x-ndjson", "application/json")


@router.get("", response_model=list[Batch])
async def list_newest(
    request: Request,
    services: Served,
    project: InProject,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE,
    before: Annotated[
        str | None, Query(pattern=r"^[0-9a-f]{20}$", description="only batches older than the batch with this id")
    ] = None,
    grader: Annotated[
        str | None, Query(max_length=80, description="only batches that this grader scores: key or key@version")
    ] = None,
) -> Response:
    """List the newest batches first, without their summaries; `before` continues after the batch with that id."""
    of = None if grader is None else batch_upload.named(grader)
    return await services.large_answers.make(request, _newest, services, project, limit, before, of)


def _newest(
    services: Services, project: str, limit: int, before: str | None, of: batch_upload.GraderOf | None
) -> Response:
    key, version = ("", None) if of is None else (of.key, of.version)
    found = services.store.batches.newest(project, limit, before, key, version)
    return Response(_BATCHES.dump_json(found), media_type="application/json")


@router.get("/{batch_id}", response_model=Batch)
async def get(
    request: Request,
    services: Served,
    project: InProject,
    batch_id: str,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="seconds to wait at most for its end")] = 0,
    bootstrap: Annotated[
        bool,
        Query(description="include bootstrap confidence intervals of an ended batch; takes seconds the first time"),
    ] = False,
    combined: Annotated[
        bool,
        Query(
            description="include the summary of the combined outcomes of an ended batch; takes seconds the first time"
        ),
    ] = False,
) -> Response:
    """Get one batch, with the summary of what is done so far; with `wait_s`, wait until it is over."""
    batch = await _awaited(request, services, project, batch_id, wait_s)
    if combined:
        batch = await with_combined(request, services, batch)
    if bootstrap:
        batch = await with_bootstrap(request, services, batch)
    return Response(batch.model_dump_json(), media_type="application/json")  # FastAPI would validate the model again


async def _awaited(request: Request, services: Services, project: str, batch_id: str, wait_s: float) -> Batch:
    look = partial(services.read, request, services.store.batches.get, project, batch_id)
    if not wait_s:
        return await look()
    ended = asyncio.Event()
    ends = current_time() + wait_s
    with services.store.endings.calling(batch_id, partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)):
        while (batch := await look()).state not in ENDED and current_time() < ends:
            with move_on_at(ends):
                await ended.wait()
            ended.clear()
    return batch


@router.get("/{batch_id}/outcomes", response_class=StreamingResponse, responses={200: {"content": openapi.JSON_LINES}})
async def read_outcomes(
    request: Request,
    services: Served,
    project: InProject,
    batch_id: str,
    after: After = -1,
    limit: Limit = None,
    accept_encoding: AcceptEncoding = "",
) -> Response:
    """Read the outcomes as JSON lines in input order, up to the first thread that is not done; of a cancelled batch,
    without the threads that are not done.
    """
    read = partial(outcomes.read, after=after, limit=limit)
    return await _streamed(request, services, project, batch_id, accept_encoding, read)


@router.get("/{batch_id}/threads", response_class=StreamingResponse, responses={200: {"content": openapi.JSON_LINES}})
async def read_threads(
    request: Request,
    services: Served,
    project: InProject,
    batch_id: str,
    after: After = -1,
    limit: Limit = None,
    index: Annotated[list[Index], Query(max_length=MOST_PICKED, description="only these threads, in this order")] = [],  # noqa: B006  # FastAPI copies it
    accept_encoding: AcceptEncoding = "",
) -> Response:
    """Read the threads as they were sent, one per line, in order; or those selected by `index`."""
    if index and (after != -1 or limit is not None):
        raise invalid("`index` names threads: leave `after` and `limit` out of the query")
    read: Read = partial(batch_threads.read, after=after, limit=limit)
    if index:
        read = partial(batch_threads.read_picked, indices=index)
    return await _streamed(request, services, project, batch_id, accept_encoding, read)


async def _streamed(
    request: Request, services: Services, project: str, batch_id: str, accept_encoding: str, read: Read
) -> Response:
    gzip = _takes_gzip(accept_encoding)
    found = await services.large_answers.make(request, _lines, services, project, batch_id, gzip, read)
    headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if gzip else {})}
    first, rest = found
    if rest is None:
        return Response(first, headers=headers, media_type="application/x-ndjson")
    blocks = services.large_answers.stream(request, rest, first)
    return StreamingResponse(blocks, headers=headers, media_type="application/x-ndjson")


def _lines(
    services: Services, project: str, batch_id: str, gzip: bool, read: Read
) -> tuple[bytes, Iterator[bytes] | None]:
    """Returns all lines if they are shorter than a block; else the first block, and an iterator of the others."""
    services.store.batches.get(project, batch_id, summary=False)
    blocks = read(services.store.batches, batch_id)
    first = next(blocks, b"")
    if len(first) < BLOCK_BYTES:
        return b"".join(_gzip((first,))) if gzip else first, None
    if gzip:
        blocks = _gzip(chain(_emptied([first]), blocks))
        first = next(blocks)
    return first, blocks


def _known(services: Served, project: InProject, batch_id: str) -> Batch:
    return services.store.batches.get(project, batch_id, summary=False)


Known = Annotated[Batch, Depends(_known)]


@router.get("/{batch_id}/events", response_class=EventSourceResponse)
async def events(services: Served, batch: Known) -> AsyncIterator[ServerSentEvent]:
    """Stream `progress` events with the batch on each change, and an `end` event with its summary."""
    if batch.state in ENDED:
        get = services.store.batches.get
        batch = await services.reading.run(WaitingClient(), batch.project, get, batch.project, batch.id)
        yield ServerSentEvent(event="end", raw_data=batch.model_dump_json())
        return
    async with aclosing(services.watching.watch(batch)) as watched:
        async for progress in watched:
            yield ServerSentEvent(event="end" if progress.is_over else "progress", raw_data=progress.text)


def own(request: Request, batch: Known) -> Batch:
    """Returns the batch if the request's key created it or may manage the project. Raises ProblemError otherwise."""
    if batch.created_by != key_of(request).id:
        require(key_of(request), "manage")
    return batch


Own = Annotated[Batch, Depends(own)]
"""A batch that the key created, or any of the project for a key that may manage it."""


@router.patch("/{batch_id}", openapi_extra=openapi.body(BatchChanges))
async def change(request: Request, services: Served, project: ScoresIn, batch: Own) -> Batch:
    """Keep a batch beyond its lifetime, or stop keeping it: its lifetime then starts again now."""
    changes = await bodies.read_json(request, BatchChanges)
    return await run_sync(services.store.batches.keep, project, batch.id, changes.kept)


@router.post("/{batch_id}/cancel")
def cancel(services: Served, project: ScoresIn, batch: Own) -> Batch:
    """Cancel a batch that is not over; the outcomes of its finished chunks stay readable. Another key's batch needs the
    role manage.
    """
    now = services.store.batches.cancel(project, batch.id)
    if now.state == "cancelled":
        if batch.finished_at is None:
            services.metrics.ended.labels("cancelled").inc()
        _log.info("batch cancelled", batch=batch.id, project=project, completions=now.done)
    return now


@router.post("/{batch_id}/retry", status_code=202)
async def retry(request: Request, services: Served, project: ScoresIn, repeat: Repeatable, batch: Own) -> Batch:
    """Score the outcomes of a finished batch again whose error is `retryable`, and no others. No effect on a batch that
    has none, or is running. Another key's batch needs the role manage.
    """
    return await services.compute(request, project, retried, services, project, batch.id, repeat.once)


def retried(_: IsGone, services: Services, project: str, batch_id: str, once: Once | None = None) -> Batch:
    """Restarts a batch, which reads all its outcomes. Returns it."""
    return services.dispatch.retry(project, batch_id, once)


@router.delete("/{batch_id}", status_code=204)
async def delete(request: Request, services: Served, project: ScoresIn, batch: Own) -> None:
    """Delete a batch with its threads and outcomes. Another key's batch needs the role manage."""
    await services.read(request, _delete, services, project, batch.id)


def _delete(services: Services, project: str, batch_id: str) -> None:
    """Deletes a batch and all its files, of which there may be thousands."""
    if services.store.batches.delete(project, batch_id).finished_at is None:
        services.metrics.ended.labels("cancelled").inc()
    try:
        services.store.spool.remove(batch_id)
    except OSError as error:  # a worker may be writing outcomes of it at this moment
        _log.warning("files of a deleted batch are left for the janitor", batch=batch_id, error=str(error))


def _takes_gzip(accept_encoding: str) -> bool:
    asked = [part.replace(" ", "").lower() for part in accept_encoding.split(",")]
    return any(part == "gzip" or (part.startswith("gzip;q=") and _quality(part[7:]) > 0) for part in asked)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _gzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Compresses at the fastest level: outcomes shrink to a tenth at any, and the response should start at once."""
    packer = zlib.compressobj(1, wbits=31)
    for block in blocks:
        packed = packer.compress(block)
        del block  # while a reader is slow, this holds nothing
        if packed:
            yield packed
    yield packer.flush()


def _emptied(blocks: list[bytes]) -> Iterator[bytes]:
    """The blocks, without keeping them."""
    while blocks:
        yield blocks.pop(0)
