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


SENT = [
    ("", "ed44cc31-c717-4c45-8a58-845288c04a6b", "c770c265829c6c682c1786e2942a68e0e64ceeac5f584b96371684e54a7bcbbd"),
    ("/", "1dd5c1d6-46e5-4313-bb5e-94979ff94119", "a436db766df3b2a0d76d8ef17e8d43f5e601b99d4dd991adc2b853d22e8b4329"),
]


@pytest.mark.parametrize(("slash", "sent", "signature"), SENT)
def test_what_the_sdk_for_javascript_signed(slash: str, sent: str, signature: str) -> None:
    """Requests that version 3.1163 sent to a base URL without and with a slash at its end. `make clients` runs it."""
    at = datetime(2026, 11, 26, 7, 24, 22 if slash else 21, tzinfo=UTC)
    headers = {
        "amz-sdk-invocation-id": sent,
        "amz-sdk-request": "attempt=1; max=3",
        "content-length": "13",
        "content-type": "application/octet-stream",
        "host": "127.0.0.1:8000",
        "x-amz-content-sha256": sha256(BODY).hexdigest(),
        "x-amz-date": f"{at:%Y%m%dT%H%M%SZ}",
        "x-amz-invocation-type": "RequestResponse",
        "x-amz-tenant-id": "organization:project",
        "x-amz-user-agent": "aws-sdk-js/3.1163.0",
    }
    credential = "Credential=langfuse/20261126/eu-central-1/lambda/aws4_request"
    authorization = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={';'.join(headers)}, Signature={signature}"
    path = f"/langfuse/v1{slash}/2015-03-31/functions/code-based-eval-executor-python/invocations"
    request = Signed("POST", path, "", headers | {"authorization": authorization}, sha256(BODY).hexdigest())
    check(request, SECRET, at)
    with pytest.raises(NotSigned, match="the signature does not fit"):
        check(request._replace(path=path.replace("python", "node")), SECRET, at)


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
