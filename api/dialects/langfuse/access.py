"""Authenticates Langfuse's requests by the secret that the operator sets. They carry none of our API keys."""

import hmac
import logging
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from time import time

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from api.access.auth import address_of, admit
from api.access.tenants import name_of
from api.dialects.langfuse import aws_signature, body_signature
from api.dialects.langfuse.request import BODY_BYTES
from api.http.problems import ProblemError
from api.intake import bodies
from api.services import Services
from gradebox.schemas import ApiKey

# Stands for an API key: Langfuse's requests share one key's limits of connections and memory.
_KEY = ApiKey(id="langfuse", name="Langfuse", projects=[], role="score", created_at=datetime.now(UTC), revoked=False)
_ONE_LINE = RateLimitItemPerMinute(1)

_log = logging.getLogger(__name__)
_shown = FixedWindowRateLimiter(MemoryStorage())


async def read_signed(request: Request, services: Services) -> bytes:
    """Reads the body of a request that is signed with the secret as an AWS secret access key.

    If the body's hash is a signed header, as the JavaScript SDK sends it, the body is read only if the signature is
    valid. Raises ProblemError.
    """
    secret = _secret(services)
    claimed = request.headers.get("x-amz-content-sha256")
    if claimed is not None:
        _check_aws(request, services, claimed, secret)
        admit(request, services, _KEY)
    body = await bodies.read(request, BODY_BYTES)
    digest = await bodies.worked_on(len(body), lambda: sha256(body).hexdigest())
    if claimed is None:
        _check_aws(request, services, digest, secret)
        _let_in(request, services)
    elif digest != claimed:
        raise _refused(request, services, "X-Amz-Content-Sha256 is not the hash of the body")
    return body


async def read_external(request: Request, services: Services) -> bytes:
    """Reads the body of a request that carries the secret, or a signature made with it. Raises ProblemError."""
    secret = _secret(services)
    if services.settings.langfuse_external == "bearer":
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(sent.strip().encode(), secret.encode()):
            raise _refused(request, services, "the Authorization header is not `Bearer` with GRADEBOX_LANGFUSE_SECRET")
        admit(request, services, _KEY)
        services.strangers.note_good_address(address_of(request.scope))
        return await bodies.read(request, BODY_BYTES)
    body = await bodies.read(request, BODY_BYTES)
    header = request.headers.get("x-langfuse-signature", "")
    if not await bodies.worked_on(len(body), body_signature.is_signed, header, body, secret, time()):
        raise _refused(
            request, services, "x-langfuse-signature is not a signature of this body with GRADEBOX_LANGFUSE_SECRET"
        )
    _let_in(request, services)
    return body


def _check_aws(request: Request, services: Services, body_sha256: str, secret: str) -> None:
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope["query_string"]
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name, []).append(value)
    joined = {name: ",".join(values) for name, values in headers.items()}
    signed = aws_signature.Signed(request.method, path.decode("latin-1"), query.decode("latin-1"), joined, body_sha256)
    try:
        aws_signature.check(signed, secret, datetime.now(UTC))
    except aws_signature.NotSigned as error:
        raise _refused(request, services, str(error)) from error
    services.strangers.note_good_address(address_of(request.scope))


def _let_in(request: Request, services: Services) -> None:
    """Does what `admit` does for a request whose body was read before it was authenticated. Raises ProblemError."""
    services.strangers.note_good_address(address_of(request.scope))
    services.connections.claim(request.scope, name_of(_KEY, None))
    request.state.own_limits = {}


def _secret(services: Services) -> str:
    secret = services.settings.langfuse_secret
    if secret is None:
        raise ProblemError(403, "forbidden", "this service has no secret for Langfuse: set GRADEBOX_LANGFUSE_SECRET")
    return secret.get_secret_value()


def _refused(request: Request, services: Services, why: str) -> ProblemError:
    """Logs the reason, once a minute, because Langfuse does not show it to its users. Always a 403: Langfuse does not
    retry.
    """
    address = address_of(request.scope)
    with suppress(ProblemError):
        services.failed_keys.count(address)
    if _shown.hit(_ONE_LINE, address):
        _log.warning("refused a request to Langfuse's executor from %s: %s", address, why)
    return ProblemError(403, "forbidden", why)
