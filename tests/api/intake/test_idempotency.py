import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest

from gradebox.outcome import Outcome, OutcomeError
from storage.janitor import Janitor
from tests.api.access.test_auth import LINE, LINES, keyed
from tests.api.conftest import GOOD, PROJECT, Service, create, problem
from tests.storage.making import accept, finish_all

BATCHES = f"{PROJECT}/batches"
URL = f"{BATCHES}?grader=exact"


def once(key: str | None = None, headers: dict[str, str] | None = None) -> dict[str, str]:
    return {"Idempotency-Key": key or uuid4().hex, **(headers or {})}


def batches(client: httpx.Client) -> list[str]:
    return [batch["id"] for batch in client.get(f"{PROJECT}/batches").json()]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_batch_that_is_sent_twice_is_one_batch(client: httpx.Client, as_json: bool) -> None:
    create(client)
    body: dict[str, object] = {"content": LINE, "headers": once(headers=LINES)}
    if as_json:
        threads = [{"turns": [["assistant", "4"]]}]
        terms = {"budget": {"tokens": 500}, "replies": "new"}
        body = {"json": {"graders": [{"key": "exact"}], "threads": threads, **terms}, "headers": once()}
    url = BATCHES if as_json else URL
    first = client.post(url, **body)  # type: ignore[arg-type]  # one of two kinds of body
    second = client.post(url, **body)  # type: ignore[arg-type]  # as above
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.content == second.content
    assert batches(client) == [first.json()["id"]]


def test_a_retry_that_is_sent_twice_is_one(client: httpx.Client, service: Service) -> None:
    batch = accept(service.store, 1)
    url = f"{BATCHES}/{batch}/retry"

    def fail() -> None:
        failed = OutcomeError("model", "away", retryable=True, cause="unreachable")
        finish_all(service.store, lambda one: Outcome(one.index, one.grader, None, 0.5, error=failed))
        service.store.freezer.freeze(batch)

    fail()
    headers = once()
    assert client.post(url, headers=headers).json()["state"] == "running"
    problem(client.post(url, headers=headers | {"Content-Type": "x/y"}), 422, "idempotency-key-reused")
    fail()
    assert client.post(url, headers=headers).json()["state"] == "finished"
    assert client.post(url, headers=once()).json()["state"] == "running"


def test_the_answer_outlives_what_it_tells_of(client: httpx.Client) -> None:
    create(client)
    headers = once(headers=LINES)
    first = client.post(URL, content=LINE, headers=headers)
    client.delete(f"{PROJECT}/batches/{first.json()['id']}").raise_for_status()
    client.delete(f"{PROJECT}/graders/exact").raise_for_status()
    assert client.post(URL, content=LINE, headers=headers).content == first.content
    assert batches(client) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda request: request | {"content": LINE * 2},
        lambda request: request | {"url": f"{URL}&weight=2"},
        lambda request: request | {"headers": {**request["headers"], "Content-Type": "application/jsonl"}},
        lambda request: request | {"url": f"{PROJECT}/graders", "json": {"key": "b", "source": GOOD}, "content": None},
    ],
)
def test_a_key_that_comes_with_another_request_is_refused(
    client: httpx.Client, change: Callable[[dict[str, object]], dict[str, object]]
) -> None:
    create(client)
    request: dict[str, object] = {"url": URL, "content": LINE, "headers": once(headers=LINES)}
    client.post(**request).raise_for_status()  # type: ignore[arg-type]  # `change` may change it
    changed = change(request)
    if "json" in changed:
        changed["headers"] = {**changed["headers"], "Content-Type": "application/json"}  # type: ignore[dict-item]  # as above
    response = client.post(**changed)  # type: ignore[arg-type]  # as above
    assert "new key" in problem(response, 422, "idempotency-key-reused")
    assert len(batches(client)) == 1


def test_what_was_answered_is_answered_before_the_body_is_read(client: httpx.Client) -> None:
    create(client)
    headers = once(headers={"Content-Type": "application/json"})
    body = '{"graders": [{"key": "exact"}], "threads": [{"completion": "4"}]}'
    assert client.post(BATCHES, content=body, headers=headers).status_code == 202
    problem(client.post(BATCHES, content="{no JSON", headers=headers), 422, "idempotency-key-reused")


def test_what_was_refused_may_be_sent_again(client: httpx.Client) -> None:
    headers = once(headers=LINES)
    problem(client.post(URL, content=LINE, headers=headers), 404, "not-found")
    create(client)
    assert client.post(URL, content=LINE, headers=headers).status_code == 202


def at_once(count: int, client: httpx.Client, send: Callable[[httpx.Client], httpx.Response]) -> list[httpx.Response]:
    """The answers to so many clients with the same key, each in a thread."""

    def sent(_: int) -> httpx.Response:
        with httpx.Client(base_url=client.base_url, headers=client.headers, timeout=30) as own:
            return send(own)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(sent, range(count)))


def test_two_that_come_at_once_make_one_batch(client: httpx.Client, service: Service) -> None:
    create(client)
    headers = once(headers=LINES)
    start = threading.Barrier(4)

    def send(own: httpx.Client) -> httpx.Response:
        def body() -> Iterator[bytes]:
            yield LINE
            start.wait(10)  # each thread is in the middle of its upload
            yield LINE

        return own.post(URL, content=body(), headers=headers)

    assert len({answer.content for answer in at_once(4, client, send)}) == 1
    assert len(batches(client)) == 1
    Janitor(service.store, None).look()
    spool = service.settings.data_dir / "spool" / "payloads"
    assert [file.stem for file in spool.iterdir()] == batches(client)


def test_a_grader_that_is_sent_twice_is_one_grader(client: httpx.Client) -> None:
    headers = once()
    body = {"key": "exact", "source": GOOD}
    first = client.post(f"{PROJECT}/graders", json=body, headers=headers)
    second = client.post(f"{PROJECT}/graders", json=body, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    taken = client.post(f"{PROJECT}/graders", json=body, headers=once())
    assert "choose another key" in problem(taken, 409, "conflict")


def test_two_graders_that_come_at_once_are_one(client: httpx.Client) -> None:
    headers, body = once(), {"key": "exact", "source": GOOD}
    answers = at_once(3, client, lambda own: own.post(f"{PROJECT}/graders", json=body, headers=headers))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1


def test_an_update_that_is_repeated_late_does_not_undo_another(client: httpx.Client) -> None:
    create(client)
    url, headers = f"{PROJECT}/graders/exact", once()
    first = client.put(url, json={"source": f"# a\n{GOOD}", "name": "A"}, headers=headers)
    client.put(url, json={"source": f"# b\n{GOOD}", "name": "B"}).raise_for_status()
    assert client.put(url, json={"source": f"# a\n{GOOD}", "name": "A"}, headers=headers).content == first.content
    now = client.get(url).json()
    assert (now["version"], now["name"]) == (3, "B")


def test_another_api_key_may_use_the_same_one(client: httpx.Client, service: Service) -> None:
    create(client)
    headers = once(headers=LINES)
    with keyed(client, service, "score") as another:
        first = client.post(URL, content=LINE, headers=headers).json()["id"]
        second = another.post(URL, content=LINE, headers=headers).json()["id"]
    assert sorted(batches(client)) == sorted([first, second])


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\u00e9"])
def test_a_key_that_is_none_is_refused(client: httpx.Client, key: str) -> None:
    headers = {**LINES, "Idempotency-Key": key.encode("latin-1")}
    response = client.post(URL, content=LINE, headers=headers)  # type: ignore[arg-type]  # bytes and text
    assert "Idempotency-Key" in problem(response, 422, "invalid-request")


def test_answers_are_kept_for_a_set_time(client: httpx.Client, service: Service) -> None:
    create(client)
    client.post(URL, content=LINE, headers=once(headers=LINES)).raise_for_status()
    (name,) = service.store.redis.keys("gradebox:answer:*")
    assert 24 * 3600 - 60 < service.store.redis.ttl(name) <= 24 * 3600
