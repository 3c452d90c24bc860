"""Takes the threads of a new batch in, as JSON lines or as one JSON body."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec
from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Request

from api import bodies
from api.problems import invalid
from api.services import Services
from api.surrogates import Hidden
from storage.chunks import BATCH_BYTES, BATCH_LINES, Chunk
from storage.plans import Wanted
from storage.uploads import Upload

JSON_BYTES = 64 * bodies.MIB
GRADERS = 16

_Version = Annotated[int, msgspec.Meta(ge=1)]


class GraderOf(msgspec.Struct, forbid_unknown_fields=True):
    """A grader that a batch names; the newest version where none is named."""

    key: str
    version: _Version | None = None
    weight: float = 1.0


class NewBatch(msgspec.Struct, forbid_unknown_fields=True):
    """A batch as one JSON body."""

    graders: Annotated[list[GraderOf], msgspec.Meta(extra_json_schema={"minItems": 1, "maxItems": GRADERS})]
    threads: list[msgspec.Raw]


def named(graders: Sequence[str], weights: Sequence[float]) -> list[GraderOf]:
    """The graders of a query: `key` or `key@version`, with a weight for each or none at all."""
    if weights and len(weights) != len(graders):
        raise invalid(f"there are {len(graders)} graders and {len(weights)} weights: give one for each, or none")
    found = []
    for name, weight in zip(graders, weights or [1.0] * len(graders), strict=True):
        key, at, version = name.partition("@")
        if at and not (version.isascii() and version.isdigit() and int(version[:18]) > 0):
            raise invalid(f"{name!r} names no version: write it as key@3, or without the @ for the newest")
        found.append(GraderOf(key, int(version[:18]) if at else None, weight))
    return found


def resolve(services: Services, project: str, graders: Sequence[GraderOf]) -> list[Wanted]:
    """Settles which versions are meant. Raises ProblemError, NotFound for what is not there, and QueueFull."""
    if not graders:
        raise invalid("the batch names no grader: name at least one, as `grader=key` or in `graders`")
    if len(graders) > GRADERS:
        raise invalid(f"the batch names {len(graders)} graders, and at most {GRADERS} score one batch")
    if not all(math.isfinite(grader.weight) for grader in graders):
        raise invalid("a weight is a finite number")
    services.store.backlog.check(project)  # before the threads come, which may be gigabytes
    wanted = [
        Wanted(grader.key, services.store.graders.runnable(project, grader.key, grader.version), grader.weight)
        for grader in graders
    ]
    if len({one.label for one in wanted}) < len(wanted):
        raise invalid("the batch names a grader twice in the same version: name it once")
    return wanted


async def take_lines(request: Request, services: Services) -> tuple[str, list[Chunk]]:
    """Streams JSON lines to the spool. The id of the batch to be, and its chunks.

    Raises ProblemError, or what Upload raises; nothing is left in the spool then, nor when the connection breaks.
    """
    async with _upload(services) as upload:
        await bodies.pour(request, BATCH_BYTES, upload.write, "send the rest as another batch")
        return upload.batch_id, await run_sync(upload.finish)


async def take_threads(services: Services, threads: list[msgspec.Raw], hidden: Hidden) -> tuple[str, list[Chunk]]:
    """Writes the threads of a JSON body to the spool, as `take_lines` does."""
    async with _upload(services) as upload:
        await run_sync(lambda: upload.write(*[line + b"\n" for line in bodies.lines(threads, hidden, BATCH_LINES)]))
        return upload.batch_id, await run_sync(upload.finish)


@asynccontextmanager
async def _upload(services: Services) -> AsyncIterator[Upload]:
    upload = await run_sync(Upload, services.store)
    try:
        yield upload
    except BaseException:
        with CancelScope(shield=True):
            await run_sync(upload.abandon)
        raise
