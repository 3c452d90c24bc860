"""Who may have evaluators run: who knows the secret that the operator has set. No API key of ours comes with them."""

import hmac
from datetime import UTC, datetime
from time import time

from fastapi import Request

from api.access.auth import address_of
from api.dialects.langfuse import aws_signature, body_signature
from api.http.problems import ProblemError
from api.services import Services

_CONNECTION = "langfuse"  # the name under which its connections are counted


def check_aws(request: Request, services: Services, body: bytes) -> None:
    """Lets a request through that is signed with the secret as an AWS secret access key. Raises ProblemError."""
    secret = _secret(services)
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope["query_string"]
    headers = {name.lower(): ",".join(request.headers.getlist(name)) for name in request.headers}
    signed = aws_signature.Signed(request.method, path.decode("latin-1"), query.decode("latin-1"), headers, body)
    try:
        aws_signature.check(signed, secret, datetime.now(UTC))
    except aws_signature.NotSigned as error:
        raise _refused(request, services, f"{error} (AWS_SECRET_ACCESS_KEY is GRADEBOX_LANGFUSE_SECRET)") from error
    _let_in(request, services)


def check_external(request: Request, services: Services, body: bytes) -> None:
    """Lets a request through that brings the secret, or a signature made with it. Raises ProblemError."""
    secret = _secret(services)
    if services.settings.langfuse_external == "signature":
        header = request.headers.get("x-langfuse-signature", "")
        if not body_signature.is_signed(header, body, secret, time()):
            raise _refused(request, services, "x-langfuse-signature is no signature of this body with the secret")
    else:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(sent.strip().encode(), secret.encode()):
            raise _refused(request, services, "the Authorization is not `Bearer` and the secret")
    _let_in(request, services)


def _let_in(request: Request, services: Services) -> None:
    """Counts its connection. Further requests are not paced as those of strangers. Raises ProblemError."""
    services.strangers.note_good(request.headers.get("authorization", ""))
    services.connections.claim(request.scope, _CONNECTION)


def _secret(services: Services) -> str:
    secret = services.settings.langfuse_secret
    if secret is None:
        raise ProblemError(403, "forbidden", "this service has no secret for Langfuse: set GRADEBOX_LANGFUSE_SECRET")
    return secret.get_secret_value()


def _refused(request: Request, services: Services, why: str) -> ProblemError:
    """Counts it as a wrong key of its address. Raises ProblemError where there were too many."""
    services.failed_keys.count(address_of(request))
    return ProblemError(403, "forbidden", f"{why}: check the secret on both sides")
