"""Verifies AWS signatures, version 4, of requests to Lambda.

Libraries only sign requests, and existing verifiers are parts of servers. The tests verify what botocore and the AWS
SDK for JavaScript sign. Source: AWS's documentation, "Create a signed AWS API request".
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

CLOCK_S = 300  # the allowed difference of a request's date, as in AWS
_MOST_SIGNED = 50  # headers; SDKs sign about ten
_ALGORITHM = "AWS4-HMAC-SHA256"
_CREDENTIAL = re.compile(r"[^/\s,]+/(\d{8})/([^/\s,]{1,64})/lambda/aws4_request")
_DATE = "x-amz-date"
_NEEDED = ("host", _DATE)


class NotSigned(Exception):
    """A request is not signed with the secret. The message gives the reason."""


class Signed(NamedTuple):
    """The signed parts of a request: method, path as it was sent, query, headers by lower-case name, and the SHA-256 of
    the body.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body_sha256: str


class _Authorization(NamedTuple):
    day: str
    region: str
    headers: list[str]
    signature: str


def check(request: Signed, secret: str, now: datetime) -> None:
    """Raises NotSigned if the request is not signed with the secret, or was signed too long before or after `now`."""
    sent = _authorization(request.headers.get("authorization", ""))
    if len(sent.headers) > _MOST_SIGNED or len(set(sent.headers)) < len(sent.headers):
        raise NotSigned(f"there are more than {_MOST_SIGNED} signed headers, or one of them twice")
    if missing := [
        name for name in {*_NEEDED, *sent.headers} if name not in sent.headers or name not in request.headers
    ]:
        raise NotSigned(f"the header {missing[0]:.40} is missing or not signed")
    date = request.headers[_DATE]
    try:
        signed_at = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise NotSigned("X-Amz-Date is not a date such as 20261123T101500Z") from None
    if (off := abs((now - signed_at).total_seconds())) > CLOCK_S or not date.startswith(sent.day):
        raise NotSigned(
            f"the request was signed at {date}, which is {off:.0f} s from this machine's clock: set both clocks right"
        )
    scope = f"{sent.day}/{sent.region}/lambda/aws4_request"
    canonical = hashlib.sha256(_canonical(request, sent.headers).encode("latin-1")).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.digest(key, "\n".join((_ALGORITHM, date, scope, canonical)).encode(), "sha256").hex()
    if not hmac.compare_digest(expected.encode(), sent.signature.encode("latin-1")):
        raise NotSigned(
            "the signature does not fit: Langfuse's AWS_SECRET_ACCESS_KEY must equal GRADEBOX_LANGFUSE_SECRET. If it "
            "does, a proxy has changed the request or its Host"
        )


def _authorization(header: str) -> _Authorization:
    """Parses the header. Raises NotSigned."""
    algorithm, _, rest = header.partition(" ")
    if algorithm != _ALGORITHM:
        raise NotSigned(f"there is no Authorization header for {_ALGORITHM}")
    pairs = (part.strip().partition("=") for part in rest.split(","))
    members = {name: value for name, _, value in pairs}
    credential = _CREDENTIAL.fullmatch(members.get("Credential", ""))
    if credential is None or "SignedHeaders" not in members or "Signature" not in members:
        raise NotSigned("the Authorization does not name a credential for lambda, the signed headers and a signature")
    return _Authorization(credential[1], credential[2], members["SignedHeaders"].split(";"), members["Signature"])


def _canonical(request: Signed, signed: list[str]) -> str:
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed)
    parts = (request.method, _path(request.path), _query(request.query), headers, ";".join(signed))
    return "\n".join((*parts, request.body_sha256))


def _path(path: str) -> str:
    """Normalises a path as for every service except S3: empty and dot segments are removed, and it is encoded again."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if segments and path.endswith("/") else ""
    return quote("/" + "/".join(segments) + end, safe="/-_.~")


def _query(query: str) -> str:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text, "latin-1").encode("latin-1"), safe="-_.~")
