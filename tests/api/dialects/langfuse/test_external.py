"""Tests of the URL for Langfuse's external dispatcher, with bodies as in Langfuse's sources."""

import hmac
import time

import httpx
import pytest

from api.dialects.langfuse.body_signature import is_signed
from tests.api.conftest import problem
from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.api.dialects.langfuse.conftest import evaluation
from tests.gradebox.conftest import Service

ANSWER = {"scores": [{"name": "one", "value": 1}]}


def signature(body: bytes, at: float, secret: str = LANGFUSE_SECRET) -> str:
    digest = hmac.new(secret.encode(), b"%d." % at + body, "sha256").hexdigest()
    return f"t={int(at)},v1={digest}"


@pytest.mark.service
def test_the_bearer_is_the_secret(service: Service) -> None:
    url = f"{service.url}/langfuse/v1/execute"
    answer = httpx.post(url, json=evaluation(), headers={"Authorization": f"Bearer {LANGFUSE_SECRET}"})
    assert answer.json() == ANSWER
    for sent in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {service.key}"}):
        detail = problem(httpx.post(url, json=evaluation(), headers=sent), 403, "forbidden")
        assert LANGFUSE_SECRET not in detail


@pytest.mark.service
def test_what_is_too_large_or_no_evaluation(service: Service) -> None:
    with httpx.Client(headers={"Authorization": f"Bearer {LANGFUSE_SECRET}"}) as client:
        url = f"{service.url}/langfuse/v1/execute"
        large = client.post(url, json=evaluation(output="x" * 7_000_000))
        assert (large.status_code, large.json()["error"]["code"]) == (200, "PAYLOAD_TOO_LARGE")
        problem(client.post(url, json={"scope": {}}), 422, "invalid-request")
        problem(client.post(url, content=b"{"), 422, "invalid-request")


def test_signatures_are_of_this_body_this_secret_and_these_minutes() -> None:
    body, now = b'{"a": 1}', 1_800_000_000
    assert is_signed(signature(body, now), body, LANGFUSE_SECRET, now + 299)
    assert not is_signed(signature(body, now), body, LANGFUSE_SECRET, now + 301)
    assert not is_signed(signature(body, now + 400), body, LANGFUSE_SECRET, now)
    assert not is_signed(signature(body, now, "another"), body, LANGFUSE_SECRET, now)
    assert not is_signed(signature(body, now).replace(f"t={now}", f"t={now + 1}"), body, LANGFUSE_SECRET, now)
    for header in ("", "t=,v1=", f"v1={'0' * 64}", f"t={now},v1={'0' * 63}é"):
        assert not is_signed(header, body, LANGFUSE_SECRET, now)


@pytest.mark.service
def test_heads_and_bodies_of_strangers_hold_nobody(service: Service) -> None:
    """Nine thousand headers and the longest body: the service answers within 2 s."""
    many = [("a", "b")] * 9_000 + [("authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/r/lambda/aws4_request")]
    began = time.monotonic()
    url = f"{service.url}/langfuse/v1/2015-03-31/functions/f/invocations"
    assert httpx.post(url, content=b"{}", headers=many).status_code in (403, 431)
    assert httpx.post(url, content=b"x" * (6 << 20)).headers["x-amzn-errortype"] == "AccessDeniedException"
    assert time.monotonic() - began < 2
