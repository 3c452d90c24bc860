"""Tests of the limits of a project over HTTP."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from redis import Redis

from api.services import Services
from models.scoring.scoring import scoring
from sandbox.pool.pool import Pool
from storage.spool.spool import Spool
from storage.store import Store
from tests.api.access.test_auth import LINE, LINES, keyed
from tests.api.conftest import GOOD, PROJECT, Service, answer_of, create, problem, serving
from tests.api.intake.test_idempotency import once

PATH = f"{PROJECT}/limits"
GRADERS, BATCHES = f"{PROJECT}/graders", f"{PROJECT}/batches"
DEFAULTS = {
    "source_bytes": 65536,
    "timeout_s": 120,
    "memory_mb": 2048,
    "score_threads": 1000,
    "score_mb": 16,
    "batch_threads": 1_000_000,
    "batch_mb": 4096,
    "batch_graders": 16,
}
THREADS = [{"completion": "4"}] * 3
LONG = f"{GOOD}# {'x' * 1024}\n"
ASKS = "from gradebox import Grader\nbig = Grader('big')\nasync def grade(thread):\n    return await big(thread)\n"
MORE = b'{"completion": "%b"}\n' % (b"x" * (1 << 20))

Ask = Callable[[httpx.Client], httpx.Response]


def limit(client: httpx.Client, **limits: float) -> Any:
    return answer_of(client.patch(PATH, json=limits))


def test_limits_are_lowered_and_raised_and_shown_to_every_key(client: httpx.Client, service: Service) -> None:
    assert client.get(PATH).json() == {"limits": DEFAULTS, "defaults": DEFAULTS, "own": []}
    limit(client, score_threads=2, timeout_s=0.5)
    shown = {"limits": DEFAULTS | {"score_threads": 5000, "timeout_s": 0.5}, "defaults": DEFAULTS}
    shown["own"] = ["score_threads", "timeout_s"]
    assert limit(client, score_threads=5000) == shown
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    with keyed(client, service, "read") as reader:
        assert reader.get(PATH).json() == shown
        problem(reader.patch(PATH, json={"score_threads": 9}), 403, "forbidden")
    with keyed(client, service, "manage") as manager:
        problem(manager.patch(PATH, json={"score_threads": 9}), 403, "forbidden")
        problem(manager.delete(PATH), 403, "forbidden")
    listed = {one["key"]: one["limits"] for one in client.get("/v1/projects").json()}
    assert listed == {"default": {"score_threads": 5000, "timeout_s": 0.5}, "other": {}}
    assert client.get("/v1/projects/other/limits").json()["limits"] == DEFAULTS
    answer_of(client.delete(PATH), 204)
    assert client.get(PATH).json()["limits"] == DEFAULTS
    lines = [(line["action"], line["detail"]) for line in client.get(f"{PROJECT}/audit").json()]
    assert lines == [
        ("limits.delete", ""),
        ("limits.update", '{"score_threads":5000}'),
        ("limits.update", '{"timeout_s":0.5,"score_threads":2}'),
    ]
    problem(client.patch("/v1/projects/nowhere/limits", json={"score_mb": 1}), 404, "not-found")


@pytest.mark.parametrize(
    ("limits", "ask", "said"),
    [
        ({"source_bytes": 1024}, lambda c: c.post(GRADERS, json={"key": "g", "source": LONG}), "at most 1024 (1 KiB)"),
        (
            {"timeout_s": 2},
            lambda c: c.post(GRADERS, json={"key": "g", "source": GOOD, "timeout_s": 3}),
            "`timeout_s` is 3, and a grader of this project may have at most 2:",
        ),
        (
            {"memory_mb": 100},
            lambda c: c.post(GRADERS, json={"key": "g", "source": GOOD, "memory_mb": 101}),
            "`memory_mb` is 101, and a grader of this project may have at most 100:",
        ),
        ({"batch_threads": 2}, lambda c: c.post(BATCHES + "?grader=exact", content=LINE * 3, headers=LINES), "most 2 "),
        (
            {"batch_threads": 2},
            lambda c: c.post(BATCHES, json={"graders": [{"key": "exact"}], "threads": THREADS}),
            "at most 2:",
        ),
        ({"batch_mb": 1}, lambda c: c.post(BATCHES + "?grader=exact", content=MORE, headers=LINES), " 1048576 bytes"),
        (
            {"batch_graders": 1},
            lambda c: c.post(BATCHES + "?grader=exact&grader=exact@1", content=LINE, headers=LINES),
            "names 2 graders, and at most 1",
        ),
    ],
)
def test_a_project_has_less_until_its_limit_is_raised(
    client: httpx.Client, limits: dict[str, float], ask: Ask, said: str
) -> None:
    create(client)
    limit(client, **limits)
    refused = ask(client)
    assert refused.status_code in (413, 422) and said in refused.text, refused.text
    answer_of(client.delete(PATH), 204)
    raised = ask(client)
    assert raised.status_code in (201, 202) or "twice" in raised.text, raised.text


def test_a_project_has_more_than_the_service_gives(client: httpx.Client) -> None:
    create(client)
    limit(client, score_threads=1001, source_bytes=70_000, batch_graders=17)
    answer_of(client.post(f"{GRADERS}/exact/score", json={"threads": [{"completion": "4"}] * 1001}))
    create(client, "long", f"{GOOD}# {'x' * 66_000}\n")
    seventeen = [{"key": "exact", "version": number} for number in range(1, 18)]
    said = problem(client.post(BATCHES, json={"graders": seventeen, "threads": THREADS}), 404, "not-found")
    assert "no version 2" in said  # not that there are too many


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"batch_graders": 65}, "batch_graders is 65, and must be at most 64"),
        ({"score_mb": 65}, "score_mb is 65, and must be at most 64"),
        ({"memory_mb": 31}, "memory_mb is 31, and must be at least 32"),
        ({"source_bytes": 600_000}, "source_bytes is 600000, and must be at most 524288"),
        (
            {"batch_threads": 30_000_000},
            "30000000, and the service holds at most 20000000: ask for less, or raise GRADE",
        ),
        (
            {"batch_mb": 10**9},
            "batch_mb is 1000000000, and the service holds at most 262144: ask for less, or raise GR",
        ),
        ({"processes": 5}, "it may have source_bytes, timeout_s"),
        ({"score_mb": None}, "name a limit to change"),
    ],
)
def test_no_project_has_more_than_the_service_can_hold(client: httpx.Client, sent: dict[str, Any], said: str) -> None:
    assert said in problem(client.patch(PATH, json=sent), 422, "invalid-request")
    assert client.get(PATH).json()["own"] == []


def test_another_process_has_a_limit_at_once(
    client: httpx.Client, service: Service, pool: Pool, secret: str, redis_url: str, tmp_path: Path
) -> None:
    create(client)
    store = Store(Redis.from_url(redis_url), Spool(f"file://{tmp_path}"), secret_key=service.settings.secret_key)
    with serving(Services(store, pool), service.settings) as another:
        headers = {"Authorization": f"Bearer {secret}"}
        for most in (2, 3):
            limit(client, score_threads=most)
            sent = {"threads": THREADS}
            answer = httpx.post(f"{another.url}{GRADERS}/exact/score", json=sent, headers=headers, timeout=60)
            assert (answer.status_code, "takes at most 2:" in answer.text) == (
                (200, False) if most == 3 else (413, True)
            )


def test_a_grader_above_a_lowered_limit_is_kept_and_says_so(client: httpx.Client) -> None:
    answer_of(client.post(GRADERS, json={"key": "big", "source": GOOD, "memory_mb": 300, "timeout_s": 9}), 201)
    limit(client, memory_mb=200, timeout_s=9)
    why = "grader 'big@1' has `memory_mb` 300, and a grader of project 'default' may have at most 200: update it with"
    threads = {"threads": THREADS}
    assert why in problem(client.post(f"{GRADERS}/big/score", json=threads), 409, "not-runnable")
    assert why in problem(client.post(f"{BATCHES}?grader=big", content=LINE, headers=LINES), 409, "not-runnable")
    unchanged = f"{GRADERS}/big"
    said = problem(client.put(unchanged, json={"source": f"{GOOD}#\n"}), 422, "invalid-request")
    assert "`memory_mb` is 300, and a grader of this project may have at most 200" in said
    assert client.patch(unchanged, json={"name": "Big"}).json()["version"] == 1
    assert client.put(unchanged, json={"memory_mb": 200}).json()["version"] == 2  # its source is that of version 1
    assert client.post(f"{GRADERS}/big/score", json=threads).status_code == 200
    assert client.get(f"{unchanged}/versions/1").json()["memory_mb"] == 300
    answer_of(client.delete(PATH), 204)
    assert client.post(f"{GRADERS}/big/score", json={**threads, "version": 1}).status_code == 200


@pytest.mark.parametrize(
    "asks",
    [
        {"kind": "combine", "config": {"parts": {"big": {"grader": "big"}}}},
        {"source": ASKS},
    ],
)
def test_a_grader_that_asks_one_above_a_limit_is_not_accepted_and_runs_on_where_it_was(
    client: httpx.Client, service: Service, asks: dict[str, Any]
) -> None:
    answer_of(client.post(GRADERS, json={"key": "big", "source": GOOD, "memory_mb": 300}), 201)
    answer_of(client.post(GRADERS, json={"key": "asks", **asks}), 201)
    limit(client, memory_mb=256)  # which is what the other grader has
    for answer in (
        client.post(f"{GRADERS}/asks/score", json={"threads": THREADS}),
        client.post(f"{BATCHES}?grader=asks", content=LINE, headers=LINES),
    ):
        assert "grader 'big@1' has `memory_mb` 300" in problem(answer, 409, "not-runnable")
    store, services = service.store, service.services
    accepted = store.graders.version("default", "asks")
    with scoring(store, services.pool, services.asker, "default", "asks", accepted) as scorer:  # as in a running batch
        assert [one.score for one in scorer.score(LINE, 0, "asks@1", 1)] == [1.0]


def test_a_grader_that_asks_for_nothing_has_what_its_project_has(client: httpx.Client) -> None:
    limit(client, memory_mb=100, timeout_s=1)
    create(client)
    grader = client.get(f"{GRADERS}/exact").json()
    assert (grader["memory_mb"], grader["timeout_s"]) == (100, 1)
    assert client.post(f"{PROJECT}/validate", json={"source": GOOD}).json()["valid"]
    said = problem(client.post(f"{PROJECT}/validate", json={"source": GOOD, "timeout_s": 2}), 422, "invalid-request")
    assert "at most 1:" in said


def test_a_client_of_another_service_has_the_limits_of_the_project(client: httpx.Client) -> None:
    limit(client, source_bytes=1024)
    query = """mutation($code: String!) {
        validateFunctionGrader(project: "default", code: $code) { valid checks { message } }
    }"""
    answer = client.post("/api/graphql", json={"query": query, "variables": {"code": LONG}}).json()
    assert "at most 1024 (1 KiB) are taken" in str(answer), answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (GRADERS, {"json": {"key": "g", "source": LONG, "threads": [*THREADS, {"completion": "4" * (1 << 20)}]}}),
        (BATCHES, {"json": {"graders": [{"key": "exact"}, {"key": "other"}], "threads": THREADS}}),
        (f"{BATCHES}?grader=exact&grader=other", {"content": LINE * 2 + MORE, "headers": LINES}),
    ],
)
def test_what_was_answered_is_answered_after_a_limit_was_lowered(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    create(client)
    create(client, "other")
    sent = {**body, "headers": once(headers=body.get("headers"))}
    first = client.post(path, **sent)
    assert first.status_code in (201, 202), first.text
    limit(client, source_bytes=1024, timeout_s=1, memory_mb=32, score_threads=1, score_mb=1)
    limit(client, batch_threads=1, batch_mb=1, batch_graders=1)
    second = client.post(path, **sent)
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert client.post(path, **{**body, "headers": once(headers=body.get("headers"))}).status_code >= 400


def test_the_body_of_a_repeated_request_is_bounded(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is only discarded, and was read up to a petabyte."""
    create(client)
    headers = once(headers=LINES)
    assert client.post(f"{BATCHES}?grader=exact", content=LINE, headers=headers).status_code == 202
    quotas = service.services.store.backlog._quotas
    monkeypatch.setattr(service.services.store.backlog, "_quotas", replace(quotas, spool_bytes=1 << 20))
    said = problem(client.post(f"{BATCHES}?grader=exact", content=MORE * 2, headers=headers), 413, "too-large")
    assert str(1 << 20) in said
