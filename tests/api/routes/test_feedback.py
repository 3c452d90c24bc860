"""Tests of feedback over HTTP without answers of a model: refused requests leave nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from gradebox.outcome import OutcomeError
from gradebox.schemas import Batch
from storage import redis_keys
from storage.errors import PayloadLost
from storage.outcomes import feedback_lines
from storage.queue.backlog import Waiting
from tests.api.conftest import PROJECT, Service, problem
from tests.api.routes.test_batches import left
from tests.storage.making import accept, finish, outcomes_of, wanted


@pytest.fixture
def batch(service: Service, client: httpx.Client, here: None) -> Batch:
    """An ended batch with 99 scores of 1 and more, and a retryable error."""
    model = {"key": "m", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    client.post(f"{PROJECT}/models", json=model).raise_for_status()
    store = service.store
    made = accept(store, 100, wanted(store, "exact"))
    while (lease := store.leases.claim()) is not None:
        away = replace(outcomes_of(store, lease)[0], score=None, error=OutcomeError("model", "away", retryable=True))
        assert finish(store, lease, [away, *outcomes_of(store, lease)[1:]])
    store.freezer.freeze(made)
    return store.batches.get("default", made)


def ask(client: httpx.Client, batch: Batch, **more: Any) -> httpx.Response:
    return client.post(f"{PROJECT}/batches/{batch.id}/feedback", json={"model": "m", **more})


def test_it_is_a_batch_that_waits_for_a_worker(service: Service, client: httpx.Client, batch: Batch) -> None:
    assert ask(client, batch, on="all", of="judge").status_code == 202
    made = ask(client, batch, threshold=10.0, budget={"tokens": 100}, replies="new")
    assert made.status_code == 202, made.text
    found = client.get(f"{PROJECT}/batches/{made.json()['id']}").json()
    assert (found["state"], found["threads"], found["replies"], found["budget"]["tokens"]) == (
        "queued", 9, "new", 100,
    )  # fmt: skip
    assert found["feedback_of"] == {
        "batch": batch.id, "grader": "exact@1", "model": "m", "on": "failures", "of": "completion",
        "threshold": 10.0, "labels": None, "instructions": None,
    }  # fmt: skip
    assert found["graders"] == [{"key": "feedback/exact", "version": 1, "weight": 1.0}]
    assert client.get(f"{PROJECT}/graders/feedback%2Fexact").status_code == 404
    lane = service.store.batches.plan(found["id"])
    assert lane is not None and service.store.leases.claim() is None
    assert service.store.leases.claim(lane="asking") is not None


@pytest.mark.parametrize(
    "use",
    [
        lambda client, of: client.post(f"{PROJECT}/batches", json={"graders": [{"key": "exact"}], "threads_of": of}),
        lambda client, of: client.get(f"{PROJECT}/compare", params={"a": of, "b": of}),
        lambda client, of: client.get(f"{PROJECT}/batches/{of}/agreement", params={"label": "metadata.gold"}),
    ],
    ids=["threads_of", "compare", "agreement"],
)
def test_it_is_not_taken_for_a_batch_of_completions(
    service: Service, client: httpx.Client, batch: Batch, use: Callable[[httpx.Client, str], httpx.Response]
) -> None:
    feedback = str(ask(client, batch, threshold=10.0).json()["id"])
    service.store.batches.cancel("default", feedback)
    before = left(client, service)
    said = problem(use(client, feedback), 422, "invalid-request")
    assert f"batch {feedback} contains feedback" in said
    assert f"name batch {batch.id}" in said
    assert left(client, service) == before


def test_what_is_refused_leaves_nothing(
    service: Service, client: httpx.Client, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = left(client, service)
    assert "less than 1" in problem(ask(client, batch), 409, "nothing-to-say")
    said = problem(ask(client, batch, of="judge", labels={"5": 5.0}), 409, "nothing-to-say")
    assert "different from its label" in said
    said = problem(ask(client, batch, of="judge", labels={"5": 1.0, "none": 1.0}), 422, "invalid-request")
    assert "'none'" in said
    said = problem(ask(client, batch, threshold=10.0, budget={"usd": 1}), 422, "invalid-request")
    assert "does not limit m, which has no price: set" in said
    problem(ask(client, batch, model="other"), 404, "not-found")
    problem(ask(client, batch, on="some"), 422, "invalid-request")
    problem(ask(client, batch, labels=["a"]), 422, "invalid-request")
    problem(ask(client, batch, of="judge", labels={"a": "b"}), 422, "invalid-request")
    problem(ask(client, batch, of="judge", labels="metadata."), 422, "invalid-request")
    problem(ask(client, batch, of="judge", labels="metadata." + "a" * 130_000), 422, "invalid-request")
    large = {f"t{number}" * 20: 1.0 for number in range(100_000)}
    assert "metadata" in problem(ask(client, batch, of="judge", labels=large), 413, "too-large")
    text = client.post(f"{PROJECT}/batches/{batch.id}/feedback", content=b"{}", headers={"Content-Type": "text/plain"})
    problem(text, 415, "unsupported-media-type")
    problem(client.post(f"{PROJECT}/batches/nothing/feedback", json={"model": "m"}), 404, "not-found")

    with monkeypatch.context() as patched:
        patched.setattr(service.store.backlog, "most", Waiting(50, 10))
        service.store.redis.hset(redis_keys.WAITING, "default", 50)
        service.store.redis.hset(redis_keys.ACTIVE, "default", 1)
        problem(ask(client, batch, on="all"), 429, "queue-full")
        service.store.redis.delete(redis_keys.WAITING, redis_keys.ACTIVE)

    read = feedback_lines.read

    def lost(*given: Any) -> Iterator[bytes]:
        yield from read(*given)
        raise PayloadLost("gone")

    monkeypatch.setattr(feedback_lines, "read", lost)
    assert "no longer exist" in problem(ask(client, batch, on="all"), 404, "not-found")
    assert left(client, service) == before


@pytest.mark.parametrize("more", [{}, {"of": "judge", "labels": {"0": 1.0}}], ids=["", "labels"])
def test_outcomes_that_are_scored_again_meanwhile_are_not_taken_for_all(
    service: Service, client: httpx.Client, batch: Batch, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    read = feedback_lines.read

    def retried(*given: Any) -> Iterator[bytes]:
        service.store.retries.begin("default", batch.id, lambda lane, units: None)
        yield from read(*given)

    monkeypatch.setattr(feedback_lines, "read", retried)
    assert "scored again" in problem(ask(client, batch, on="all", **more), 409, "conflict")
    monkeypatch.undo()
    assert [one["id"] for one in client.get(f"{PROJECT}/batches").json()] == [batch.id]
    assert "running" in problem(ask(client, batch, on="all"), 409, "conflict")
