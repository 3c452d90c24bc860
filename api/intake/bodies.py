"""Reads request bodies within their limits. The contents of threads are not parsed."""

from asyncio import get_running_loop, timeout_at
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeVar, TypeVarTuple

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

from api.access.tenants import tenant_of
from api.http.problems import ProblemError, invalid, too_large
from api.http.tenant_memory import TenantMemory
from api.intake import json_cut
from api.intake.mismatch import explained
from runtime import slow_numbers

JSON_LINES_TYPES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
MIB = 1024 * 1024
BLOCK_BYTES = MIB
SMALL_BYTES = 256 * 1024  # the limit of bodies without a source and threads
SLOW_BYTES = 4096  # that have to arrive in each SLOW_S
SLOW_S = 60.0
INLINE_BYTES = 64 * 1024  # parsed in the event loop; more would block it
_PIECES = 4096  # unjoined pieces, because each has a memory overhead
_FIELDS = 16
_SHOWN = 500  # characters of an error that quotes the input

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")
_Body = TypeVar("_Body", bound=msgspec.Struct)


def media_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unsupported(request: Request, *types: str) -> ProblemError:
    """The problem of a body with another media type than these."""
    found = media_type(request) or "nothing"
    detail = f"the body is {found}, and this takes {' or '.join(types)}: set Content-Type to what you send"
    return ProblemError(415, "unsupported-media-type", detail)


async def read(request: Request, limit: int, advice: str = "send less") -> bytes:
    """Reads the whole body. Raises ProblemError if it is longer than `limit` bytes, or memory is short."""
    memory: TenantMemory = request.app.state.services.memory
    pieces: list[bytes] = []
    async for piece in _pieces(request, limit, advice):
        memory.hold(request.scope, len(piece))
        pieces.append(piece)
        if len(pieces) > _PIECES:
            pieces = [b"".join(pieces)]
    return b"".join(pieces)


async def pour(request: Request, limit: int, write: Callable[..., None], advice: str) -> None:
    """Passes the body to `write` in threads, several pieces at a time. The blocks are smaller while memory is short.
    Raises ProblemError as `read` does, and what `write` raises.
    """
    memory: TenantMemory = request.app.state.services.memory
    pieces: list[bytes] = []
    held = 0
    async for piece in _pieces(request, limit, advice):
        pieces.append(piece)
        if held < BLOCK_BYTES and len(pieces) < _PIECES and memory.fits(len(piece), tenant_of(request.scope)):
            memory.hold(request.scope, len(piece))
            held += len(piece)
            continue
        await run_sync(write, *pieces)
        memory.let_go(request.scope, held)
        pieces, held = [], 0
    if pieces:
        await run_sync(write, *pieces)


async def _pieces(request: Request, limit: int, advice: str) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises ProblemError if it is too long, compressed or too slow."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(
            415, "unsupported-media-type", "compressed bodies are not accepted: send it without Content-Encoding"
        )
    over = too_large(f"the body is longer than {limit} bytes: {advice}")
    length = request.headers.get("content-length", "0").strip()
    if length.isdecimal() and int(length) > limit:
        raise over
    total = 0
    async for piece in _timed(request):
        total += len(piece)
        if total > limit:
            raise over
        yield piece


async def _timed(request: Request) -> AsyncIterator[bytes]:
    stream = request.stream()
    repeat = getattr(request.state, "repeat", None)  # see api/intake/idempotency.py
    time = get_running_loop().time
    ends, came = time() + SLOW_S, 0
    while True:
        try:
            async with timeout_at(ends):
                piece = await anext(stream, None)
        except TimeoutError as error:
            detail = (
                f"less than {SLOW_BYTES} bytes of the body came within {SLOW_S:g} s, and nothing was kept: "
                "collect all of it first, such as in a file, and send it without pauses"
            )
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
        ends += time() - given  # the time that the caller spent on the piece does not count


async def skip(request: Request, limit: int) -> None:
    """Reads the body to its end and discards it."""
    async for _ in _pieces(request, limit, "send less"):
        pass


async def worked_on(size: int, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
    """Returns the result of `work` on `size` bytes: in a thread, unless there are few."""
    return work(*args) if size <= INLINE_BYTES else await run_sync(work, *args)


def parse(body: bytes, kind: type[_Body]) -> _Body:
    """Parses a JSON body. Raw members stay as they were sent, including unpaired surrogates.

    Raises ProblemError if the body is not valid JSON, or does not match `kind`.
    """
    try:
        return decode(body, kind)
    except ProblemError:
        if not json_cut.holds_surrogates(body):
            raise
    decode(json_cut.masked(body), kind)
    try:
        sent = json_cut.members(body)
    except json_cut.TwiceError as error:
        raise invalid(f"the body has the member {str(error)[:_SHOWN]!r} twice: send it once") from error
    fields = [field for field in msgspec.structs.fields(kind) if field.encode_name in sent]
    raw = {field.name: msgspec.Raw(sent[field.encode_name]) for field in fields if field.type is msgspec.Raw}
    rest = {
        field.encode_name: msgspec.Raw(b"null" if field.name in raw else sent[field.encode_name]) for field in fields
    }
    try:
        return msgspec.structs.replace(decode(msgspec.json.encode(rest), kind), **raw)
    except ProblemError as error:
        names = ", ".join(name for name in rest if name not in raw and _is_half(sent[name]))
        raise invalid(f"{names} holds half a surrogate pair (an emoji that was cut in two?): send it whole") from error


def _is_half(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return True
    return False


def decode(body: bytes, kind: type[_T]) -> _T:
    """Decodes JSON without unpaired surrogates. Raises ProblemError if it is invalid or does not match `kind`."""
    _refuse_slow_numbers(body, kind)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(f"the body is invalid: {explained(error, kind, partial(_member, body))[:_SHOWN]}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {json_cut.fault(body, error)}") from error


def _refuse_slow_numbers(body: bytes, kind: type) -> None:
    """Raises ProblemError for a body with many numbers that take long to read. Members that stay raw, which may be
    long, are searched only if the rest is long too.
    """
    decoded = len(body)
    if decoded > slow_numbers.FEW_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raw = msgspec.json.decode(body, type=_raw_members(kind))
            decoded -= sum(map(len, msgspec.structs.astuple(raw)))
    if decoded > slow_numbers.FEW_BYTES and slow_numbers.are_many(body):
        raise invalid(f"the body is not read: {slow_numbers.REASON}")


@cache
def _raw_members(kind: type) -> type[msgspec.Struct]:
    """A type with the raw members of another one."""
    fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
    raw = {field.name: field.encode_name for field in fields if field.type is msgspec.Raw}
    return msgspec.defstruct("RawMembers", [(name, msgspec.Raw, msgspec.Raw()) for name in raw], rename=raw)


def _member(body: bytes, name: str) -> str:
    """A member of a JSON object, as it was sent; "" if it cannot be read."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get(name, b"")).decode()
    return ""


async def read_as_json(request: Request, limit: int, advice: str = "send less") -> bytes:
    """Reads a JSON body. Raises ProblemError as `read` does, and if the body has another media type."""
    if media_type(request) != "application/json":
        raise unsupported(request, "application/json")
    return await read(request, limit, advice)


async def read_json(request: Request, kind: type[_T]) -> _T:
    """Reads a small JSON body. Raises ProblemError if it is invalid, too long, or does not match `kind`."""
    return decode(await read_as_json(request, SMALL_BYTES), kind)


def convert(fields: Mapping[str, Any], kind: type[_T]) -> _T:
    """Converts the fields of a query or a form. Raises ProblemError if they do not match `kind`."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        said = explained(error, kind, lambda name: str(fields.get(name, "")))
        raise invalid(f"the fields are invalid: {said[:_SHOWN]}") from error


async def form(request: Request, body: bytes) -> FormData:
    """Parses a multipart body with at most one file. Raises ProblemError if it is invalid."""

    async def stream() -> AsyncIterator[bytes]:
        yield body

    try:
        parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=_FIELDS, max_part_size=len(body))  # type: ignore[arg-type]  # takes any async iterator
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise invalid(f"the body is not a multipart form with at most one file: {error}") from error


def lines(threads: bytes | msgspec.Raw, most: int, longest: int, advice: str) -> list[bytes]:
    """Converts the threads of a JSON body to JSON lines, unparsed. Raises ProblemError for none or too many."""
    found = elements(threads, most, longest, "threads", advice)
    if not found:
        raise invalid("there are no threads: send at least one")
    if len(found) == 1:
        return [line_of(found[0], longest)]
    return [line_of(thread, longest, f"thread {number}") for number, thread in enumerate(found)]


def elements(array: bytes | msgspec.Raw, most: int, longest: int, what: str, advice: str) -> list[bytes]:
    """Splits a JSON array into its elements. Raises ProblemError if it is not an array, or has too many elements."""
    try:
        return json_cut.elements(bytes(array), most, longest)
    except json_cut.TooManyError as error:
        detail = f"{what}: {error}, and one request takes at most {most}: {advice}"
        raise too_large(detail) from error
    except msgspec.ValidationError as error:
        raise invalid(f"the body is invalid: {error} - at `$.{what}`") from error


def line_of(thread: bytes, longest: int, what: str = "the thread") -> bytes:
    """Converts a JSON text to one line. Raises ProblemError if it is longer than a thread may be."""
    if len(thread) > longest:
        raise too_large(f"{what} is longer than {longest} bytes: a thread is at most that long")
    return thread.replace(b"\n", b" ").replace(b"\r", b" ")
