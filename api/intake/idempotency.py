"""Requests with an `Idempotency-Key`: a repeated request runs once, and gets the same answer each time."""

import re
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Header, Request
from xxhash import xxh3_128

from api.access.auth import key_of
from api.http.problems import RETRY, ProblemError, invalid
from api.intake import bodies
from api.services import Services
from api.settings import MAX_SCORE_MB
from gradebox.schemas import ApiKey, GraderRecord
from storage.idempotency import Once, once

_KEY = re.compile(r"[!-~]{1,255}")


class Repeat:
    """A request that may have an Idempotency-Key. Its body is hashed while it is read, to distinguish it from other
    requests with the same key.

    The hash is not cryptographic: a collision could only mislead the holder of the API key that sends both bodies.
    """

    def __init__(self, request: Request, project: str, caller: ApiKey, key: str | None, keep_s: int) -> None:
        self._place = project, caller.id, key
        self._keep_s = keep_s
        head = (request.method, request.url.path, request.url.query, request.headers.get("content-type", ""))
        self._hash = xxh3_128("\n".join(head).encode())

    def feed(self, piece: bytes | bytearray) -> None:
        """Hashes the next bytes of the body."""
        self._hash.update(piece)

    @property
    def once(self) -> Once | None:
        """The request's identity, with the hash of the body read so far; None without an Idempotency-Key."""
        project, caller, key = self._place
        return None if key is None else once(project, caller, key, self._hash.digest(), self._keep_s)


async def answered_grader(request: Request, services: Services, repeat: Repeat) -> GraderRecord | None:
    """The earlier answer to a request that changes a grader, whose body is read and discarded; None if it is the first
    with its Idempotency-Key. The limits of the project may have been higher at the first request.

    Raises:
        KeyReused: the Idempotency-Key was used with another request.
        ProblemError: the earlier answer has just expired, or the body cannot be read.
    """
    if not await run_sync(services.store.acceptance.has_answered, repeat.once):
        return None
    await bodies.skip(request, MAX_SCORE_MB * bodies.MIB)
    found = await run_sync(services.store.graders.answered, repeat.once)
    if found is None:
        raise expired()
    return found


def expired() -> ProblemError:
    """The problem of a repeated request whose answer expired while its body was read."""
    detail = "the stored answer to this request has just expired: send the request again"
    return ProblemError(503, "unavailable", detail, RETRY)


async def _repeatable(
    request: Request,
    project: str,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="1-255 visible characters; a repeated request is executed once",
            json_schema_extra={"pattern": f"^{_KEY.pattern}$"},
        ),
    ] = None,
) -> Repeat:
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise invalid("an Idempotency-Key is 1 to 255 visible ASCII characters, such as a UUID")
    services: Services = request.app.state.services
    repeat = Repeat(request, project, key_of(request), idempotency_key, services.settings.idempotency_s)
    request.state.repeat = repeat  # for the function that reads the body
    return repeat


Repeatable = Annotated[Repeat, Depends(_repeatable)]
"""The request, which may be repeated. It depends on the caller being identified first."""
