"""Who may have evaluators run: who knows the secret that the operator has set. No API key of ours comes with them."""

import hmac
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from time import time

from fastapi import Request

from api.access.auth import address_of
from api.dialects.langfuse import aws_signature, body_signature
from api.http.problems import ProblemError
from api.intake import bodies
from api.services import Services

_CONNECTION = "langfuse"  # the name under which its connections are counted

Fault = Callable[[Request, bytes, str], str | None]
"""Given a request, its body and the secret, says why it does not come from Langfuse; None where it does."""


async def admit(request: Request, services: Services, body: bytes, fault_of: Fault) -> None:
    """Lets a request of Langfuse's through. Further ones are not paced as those of strangers.

    Raises:
        ProblemError: it is none, there is no secret, or there are too many connections.
    """
    secret = services.settings.langfuse_secret
    if secret is None:
        raise ProblemError(403, "forbidden", "this service has no secret for Langfuse: set GRADEBOX_LANGFUSE_SECRET")
    fault = await bodies.worked_on(len(body), fault_of, request, body, secret.get_secret_value())
    if fault is not None:
        services.failed_keys.count(address_of(request))
        raise ProblemError(403, "forbidden", f"{fault}: check that it is GRADEBOX_LANGFUSE_SECRET on both sides")
    services.strangers.note_good(request.headers.get("authorization", ""))
    services.connections.claim(request.scope, _CONNECTION)


def aws_fault(request: Request, body: bytes, secret: str) -> str | None:
    """Of a request that is to be signed with the secret as an AWS secret access key."""
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope["query_string"]
    headers = defaultdict[str, list[str]](list)
    for name, value in request.headers.items():
        headers[name].append(value)
    joined = {name: ",".join(values) for name, values in headers.items()}
    signed = aws_signature.Signed(request.method, path.decode("latin-1"), query.decode("latin-1"), joined, body)
    try:
        aws_signature.check(signed, secret, datetime.now(UTC))
    except aws_signature.NotSigned as error:
        return f"{error}, which is AWS_SECRET_ACCESS_KEY there"
    return None


def bearer_fault(request: Request, _body: bytes, secret: str) -> str | None:
    """Of a request that is to bring the secret."""
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), secret.encode()):
        return None
    return "the Authorization is not `Bearer` and the secret"


def signature_fault(request: Request, body: bytes, secret: str) -> str | None:
    """Of a request that is to be signed as Langfuse signs its webhooks."""
    if body_signature.is_signed(request.headers.get("x-langfuse-signature", ""), body, secret, time()):
        return None
    return "x-langfuse-signature is no signature of this body with the secret"
