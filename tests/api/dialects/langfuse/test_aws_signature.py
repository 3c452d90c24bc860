import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from api.dialects.langfuse.aws_signature import NotSigned, Signed, check

SECRET = "a secret access key"
BODY = b'{"scope": {}}'


def signed(
    path: str = "/langfuse/v1/2015-03-31/functions/f/invocations", query: str = "", service: str = "lambda"
) -> Signed:
    """A request that botocore signed."""
    url = f"http://gradebox:8000{path}" + (f"?{query}" if query else "")
    request = AWSRequest(method="POST", url=url, data=BODY, headers={"X-Amz-Tenant-Id": "o:p  q"})
    SigV4Auth(Credentials("any", SECRET), service, "eu-west-1").add_auth(request)
    headers: dict[str, Any] = {name.lower(): value for name, value in request.headers.items()}
    return Signed("POST", path, query, {"host": "gradebox:8000", **headers}, sha256(BODY).hexdigest())


def now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/2015-03-31/functions/f/invocations", ""),
        ("/langfuse/v1//2015-03-31/functions/f/invocations", ""),
        ("/langfuse/v1/2015-03-31/functions/a%20b%3Ac/invocations", ""),
        ("/langfuse/v1/2015-03-31/functions/f/invocations", "Qualifier=%24LATEST&A=1"),
        ("/a/./b/../c/", "b=2&a=2&a=1&empty="),
    ],
)
def test_what_botocore_signs(path: str, query: str) -> None:
    check(signed(path, query), SECRET, now())


def test_everything_that_counts_is_signed() -> None:
    good = signed()
    others: list[Signed] = [
        good._replace(body_sha256=sha256(BODY + b" ").hexdigest()),
        good._replace(path=good.path.replace("/f/", "/g/")),
        good._replace(query="Qualifier=2"),
        good._replace(method="PUT"),
        good._replace(headers={**good.headers, "host": "elsewhere:8000"}),
        good._replace(headers={**good.headers, "x-amz-tenant-id": "o:another"}),
    ]
    for other in others:
        with pytest.raises(NotSigned, match="the signature does not fit"):
            check(other, SECRET, now())
    with pytest.raises(NotSigned, match="the signature does not fit"):
        check(good, "another secret", now())


def test_a_request_is_good_for_minutes() -> None:
    good = signed()
    check(good, SECRET, now() + timedelta(seconds=290))
    for off in (timedelta(seconds=310), timedelta(seconds=-310)):
        with pytest.raises(NotSigned, match="clock"):
            check(good, SECRET, now() + off)
    with pytest.raises(NotSigned, match="not a date"):
        check(good._replace(headers={**good.headers, "x-amz-date": "today"}), SECRET, now())


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer a",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/s3/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/lambda/aws4_request, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/lambda/aws4_request, SignedHeaders=host;x-amz-date",
        "AWS4-HMAC-SHA256 Credential=a/2026/r/lambda/aws4_request, SignedHeaders=host;x-amz-date, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/lambda/aws4_request, SignedHeaders=x-amz-date, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/lambda/aws4_request, SignedHeaders=host;x-amz-date, Signature=é",
    ],
)
def test_headers_that_are_none(authorization: str) -> None:
    good = signed()
    with pytest.raises(NotSigned):
        check(good._replace(headers={**good.headers, "authorization": authorization}), SECRET, now())


def test_what_is_signed_is_bounded() -> None:
    """Each signed name costs a look-up of its header."""
    good = signed()
    large = {**good.headers, "a": "x " * 13_000}
    signature = "Credential=a/20260101/r/lambda/aws4_request, Signature=0, SignedHeaders=host;x-amz-date"
    for names in (";a" * 12_000, "".join(f";a{number}" for number in range(60)), ";a;a", ";missing"):
        headers = {**large, "authorization": f"AWS4-HMAC-SHA256 {signature}{names}"}
        began = time.monotonic()
        with pytest.raises(NotSigned, match="signed"):
            check(good._replace(headers=headers), SECRET, now())
        assert time.monotonic() - began < 0.1


def test_a_signature_for_another_service_is_none() -> None:
    with pytest.raises(NotSigned, match="lambda"):
        check(signed(service="s3"), SECRET, now())
