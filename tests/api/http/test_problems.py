import json

import httpx
import msgspec
import pytest

from api.http.problems import ValidationFailed, members_of
from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Check, Report
from tests.api.conftest import PROJECT, problem


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/v1/v1/nothing", "URL without /v1: /docs lists"),
        (f"{PROJECT}/nothing/openai", "URL without /v1: /docs lists"),
        ("/fine_tuning/alpha/graders/run", "base URL …/openai/v1?"),
        ("/openai/fine_tuning/alpha/graders/run", "base URL …/openai/v1?"),
        ("/v1/chat/openai/completions", "base URL …/openai/v1?"),
        ("/api/v1/graphql", "base URL this service, without a path? docs/adaptive.md"),
        ("/langfuse/execute", "base URL …/langfuse/v1?"),
        ("/v1/2015-03-31/functions/f/invocations", "base URL …/langfuse/v1?"),
        ("/promptfoo/default/exact", "base URL …/promptfoo/v1/{project}/{grader}?"),
        ("/reward/exact/batch_score/", "base URL …/reward/{project}/{grader}?"),
        ("/weave/default/exact", "base URL …/weave/v1/{project}/{grader}?"),
    ],
)
def test_a_path_that_is_not_there(client: httpx.Client, path: str, says: str) -> None:
    answer = client.post(path)
    assert says in problem(answer, 404, "not-found")
    assert answer.json()["error"] == {"message": answer.json()["detail"]}


def test_a_method_that_is_not_there(client: httpx.Client) -> None:
    response = client.delete(f"{PROJECT}/graders")
    problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("query", ["limit=0", "limit=many"])
def test_a_query_that_makes_no_sense_is_named(client: httpx.Client, query: str) -> None:
    assert "query.limit" in problem(client.get(f"{PROJECT}/batches?{query}"), 422, "invalid-request")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "Expected `object`"),
        (b"{}", "key"),
        (b'{"key": "a"}', "no source"),
        (b'{"key": "A", "source": ""}', "Expected 1 to 64 of a-z 0-9 . _ - with a letter or digit first"),
        (b'{"key": "a", "source": 1}', "string"),
        (b'{"key": "a", "source": "", "timeout_s": 121}', "timeout_s is 121, and must be at most 120"),
        (b'{"key": "a", "source": "", "timeout_s": 0}', "timeout_s is 0, and must be more than 0"),
        (b'{"key": "a", "source": "", "memory_mb": 4096}', "memory_mb is 4096, and must be at most 2048"),
        (b'{"key": "a", "source": "", "timeout": 1}', "unknown field `timeout`"),
        (b'{"key": "a", "source": "", "threads": []}', "no threads"),
        (b'{"key": "a", "source": "", "threads": [' + b"[" * 100_000, "not JSON"),
    ],
)
def test_a_body_that_makes_no_sense_is_told_why(client: httpx.Client, body: bytes, says: str) -> None:
    response = client.post(f"{PROJECT}/graders", content=body, headers={"Content-Type": "application/json"})
    assert says in problem(response, 422, "invalid-request")


def test_what_was_sent_is_not_sent_back_at_length(client: httpx.Client) -> None:
    body = b'{"source": "", "%s": 1}' % (b"x" * 1_000_000)
    response = client.post(f"{PROJECT}/validate", content=body, headers={"Content-Type": "application/json"})
    assert len(problem(response, 422, "invalid-request")) < 1000


def test_a_body_of_another_type(client: httpx.Client) -> None:
    response = client.post(f"{PROJECT}/graders", content=b"x", headers={"Content-Type": "image/png"})
    assert "image/png" in problem(response, 415, "unsupported-media-type")


def test_a_compressed_body(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert "without Content-Encoding" in problem(
        client.post(f"{PROJECT}/validate", content=b"x", headers=headers), 415, "unsupported-media-type"
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_body_over_its_limit(client: httpx.Client, stream: bool) -> None:
    body = b" " * (17 * 1024 * 1024)
    content = iter([body]) if stream else body
    response = client.post(f"{PROJECT}/validate", content=content, headers={"Content-Type": "application/json"})
    assert "16777216 bytes" in problem(response, 413, "too-large")


def test_a_long_report_is_encoded_before_it_is_sent() -> None:
    """A thread makes the error, and the event loop sends it: encoding a thousand outcomes there would take seconds."""
    failed = Check(name="test_run", passed=False, message="no score.", duration_ms=1.0)
    error = OutcomeError("bad_return", "ü")
    outcomes = [Outcome(0, "g", 1.0, 0.5, details={"a": [1, None]}), Outcome(1, "g", None, 0.5, error=error)]
    told = {"valid": False, "checks": [failed], "warnings": ["line 3: w"], "outcomes": outcomes}
    report = Report.model_validate(told)
    members = members_of(ValidationFailed(report), "7")
    assert isinstance(members["report"], msgspec.Raw)
    sent = json.loads(msgspec.json.encode(members))
    assert sent.pop("report") == report.model_dump(mode="json")
    assert sent == {
        "type": "urn:gradebox:problem:validation-failed",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": "check 'test_run' failed: no score. Nothing was saved.",
        "request_id": "7",
    }
