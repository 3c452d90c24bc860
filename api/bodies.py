"""Reads the bodies of requests within their limits. What tenants wrote inside threads is not looked at."""

from asyncio import get_running_loop, timeout_at
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

from api import surrogates
from api.intake import EXTENSION, Intake
from api.memory import BodyMemory
from api.problems import ProblemError, invalid, too_large
from storage.chunks import LINE_BYTES

MIB = 1024 * 1024
BLOCK_BYTES = MIB
SMALL_BYTES = 256 * 1024  # of bodies that hold no source and no threads
SLOW_BYTES = 4096  # that come at least in each SLOW_S
SLOW_S = 60.0
_FIRST_BYTES = 64 * 1024  # of a long body: the rest is read otherwise
_PIECES = 4096  # that lie about unjoined: each costs more than a byte
_FIELDS = 16
_TOLD = 500  # characters of an error that repeats what was sent

_T = TypeVar("_T")


def media_type(request: Request) -> str:
    """What the body claims to be, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unsupported(request: Request, *types: str) -> ProblemError:
    """The problem of a body of another type than these."""
    found = media_type(request) or "nothing"
    detail = f"the body is {found}, and this takes {' or '.join(types)}: set Content-Type to what you send"
    return ProblemError(415, "unsupported-media-type", detail)


async def read(request: Request, limit: int, advice: str = "send less") -> bytes:
    """The whole body. Raises ProblemError where it is longer than `limit` bytes, or memory is short."""
    memory: BodyMemory = request.app.state.services.memory
    pieces: list[bytes] = []
    async for block in blocks(request, limit, advice):
        memory.hold(request.scope, sum(map(len, block)))
        pieces += block
    return b"".join(pieces)


async def pour(request: Request, limit: int, write: Callable[..., None], advice: str = "send less") -> None:
    """Has `write` take the body in threads, some pieces of it at a time. Raises ProblemError as `read` does, and what
    `write` raises.
    """
    intake: Intake | None = request.scope.get("extensions", {}).get(EXTENSION, {}).get("of")
    if intake is not None and intake.left < MIB:
        intake = None
    repeat = getattr(request.state, "repeat", None)

    def take(piece: bytes | bytearray) -> None:
        if repeat is not None:
            repeat.feed(piece)
        write(piece)

    async for block in blocks(request, limit, advice, _FIRST_BYTES if intake else BLOCK_BYTES):
        await run_sync(write, *block)
        while intake is not None and await intake.rush(take):
            pass


async def blocks(
    request: Request, limit: int, advice: str = "send less", least: int = BLOCK_BYTES
) -> AsyncIterator[list[bytes]]:
    """The body in blocks of at least so many bytes, the last one aside, each as the pieces that came: whoever writes
    them need not join them. Raises ProblemError as `read` does.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(
            415, "unsupported-media-type", "compressed bodies are not taken: send it without Content-Encoding"
        )
    over = too_large(f"the body is longer than {limit} bytes: {advice}")
    length = request.headers.get("content-length", "0").strip()
    if length.isdecimal() and int(length) > limit:
        raise over
    pieces: list[bytes] = []
    total = waiting = 0
    async for piece in _pieces(request):
        total += len(piece)
        waiting += len(piece)
        if total > limit:
            raise over
        pieces.append(piece)
        if len(pieces) > _PIECES:
            pieces = [b"".join(pieces)]
        if waiting >= least:
            yield pieces
            pieces, waiting = [], 0
    if pieces:
        yield pieces


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    stream = request.stream()
    repeat = getattr(request.state, "repeat", None)  # see api/repeats.py
    time = get_running_loop().time
    ends, came = time() + SLOW_S, 0
    while True:
        try:
            async with timeout_at(ends):
                piece = await anext(stream, None)
        except TimeoutError as error:
            detail = f"less than {SLOW_BYTES} bytes of the body came within {SLOW_S:g} s: send it without pauses"
            raise ProblemError(408, "timeout", detail, {"Connection": "close"}) from error
        if piece is None:
            return
        came += len(piece)
        if came >= SLOW_BYTES:
            ends, came = time() + SLOW_S, 0
        if repeat is not None:
            repeat.feed(piece)
        given = time()
        yield piece
        ends += time() - given  # what is done with it meanwhile is not the client's time


async def skip(request: Request, limit: int) -> None:
    """Reads the body to its end, and lets go of it."""
    async for _ in blocks(request, limit):
        pass


def parse(body: bytes, kind: type[_T]) -> tuple[_T, surrogates.Hidden]:
    """A JSON body, and what was hidden in its raw parts. Raises ProblemError where it is none, or not of this kind."""
    try:
        return decode(body, kind), {}
    except ProblemError:
        if b"\\ud" not in body and b"\\uD" not in body:
            raise
    body, hidden = surrogates.hide(body)
    return decode(body, kind), hidden


def decode(body: bytes, kind: type[_T]) -> _T:
    """A JSON body whose texts are whole. Raises ProblemError where it is none, or not of this kind."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(f"the body is not as it should be: {str(error)[:_TOLD]}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the body is no JSON: {error}") from error


async def read_json(request: Request, kind: type[_T]) -> _T:
    """A small JSON body. Raises ProblemError where it is none, not of this kind, or too long."""
    if media_type(request) != "application/json":
        raise unsupported(request, "application/json")
    return decode(await read(request, SMALL_BYTES), kind)


def convert(fields: Mapping[str, Any], kind: type[_T]) -> _T:
    """Fields of a query or a form. Raises ProblemError where they are not of this kind."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(f"the fields are not as they should be: {str(error)[:_TOLD]}") from error


async def form(request: Request, body: bytes) -> FormData:
    """A multipart body with at most one file. Raises ProblemError where it is none."""

    async def stream() -> AsyncIterator[bytes]:
        yield body

    try:
        parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=_FIELDS, max_part_size=len(body))  # type: ignore[arg-type]  # takes any async iterator
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise invalid(f"the body is no multipart form with at most one file: {error}") from error


def lines(threads: list[msgspec.Raw], hidden: surrogates.Hidden, most: int) -> list[bytes]:
    """Threads of a JSON body as JSON lines, unparsed. Raises ProblemError where there are none, or over a limit."""
    if not threads:
        raise invalid("there are no threads: send at least one")
    if len(threads) > most:
        raise too_large(f"these are {len(threads)} threads, and one request takes {most}: send a batch instead")
    found = [surrogates.restore(bytes(thread), hidden).replace(b"\n", b" ").replace(b"\r", b" ") for thread in threads]
    for number, line in enumerate(found):
        if len(line) > LINE_BYTES:
            raise too_large(f"thread {number} is longer than {LINE_BYTES} bytes: a thread is at most that long")
    return found
