import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

import gradebox
from api import progress_events
from api.intake import bodies
from api.numbers import run_job
from api.numbers.jobs import Job
from gradebox.schemas import Batch
from storage import redis_keys
from storage.batches import batch_threads
from storage.errors import NotFound, PayloadLost
from storage.queue.backlog import Waiting
from storage.spool import lost_files
from storage.spool.chunks import ASKING_CHUNK_LINES
from tests.api.conftest import GOOD, PROJECT, Service, create, finished, problem
from tests.waiting import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
URL = f"{PROJECT}/batches"
LINES = {"Content-Type": "application/x-ndjson"}


def lines(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield b'{"id": "t%d", "completion": "%d"}\n' % (number, number % 8)


def submit(client: httpx.Client, content: object, query: str = "grader=exact") -> str:
    response = client.post(f"{URL}?{query}", content=content, headers=LINES)  # type: ignore[arg-type]  # httpx takes iterators
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def outcomes(client: httpx.Client, batch: str, query: str = "") -> list[dict[str, object]]:
    return [json.loads(line) for line in client.get(f"{URL}/{batch}/outcomes{query}").iter_lines()]


def test_a_combination_that_waits_for_nothing_is_scored_among_others(client: httpx.Client, service: Service) -> None:
    create(client)
    create(client, "long", "async def grade(thread):\n    return len(thread.completion())\n")
    parts = {"exact": {"grader": "exact", "weight": 3}, "long": {"grader": "long", "weight": 1}}
    made = client.post(f"{PROJECT}/graders", json={"key": "both", "kind": "combine", "config": {"parts": parts}})
    assert made.status_code == 201, made.text
    assert client.get(f"{PROJECT}/graders/both/versions/1").json()["waits"] is False
    batch = submit(client, lines(2500), "grader=both&grader=exact")
    plan = service.store.batches.plan(batch)
    assert plan is not None and max(chunk.lines for chunk in plan.chunks) > ASKING_CHUNK_LINES
    over = finished(client, batch)
    assert (over["state"], over["scored"], over["errors"]) == ("finished", 5000, {})
    found = [one for one in outcomes(client, batch) if one["grader"] == "both@1"]
    assert [one["score"] for one in found] == [0.75 * (number % 8 == 4) + 0.25 for number in range(2500)]
    assert [one["id"] for one in found] == [f"t{number}" for number in range(2500)]


def test_batches_and_those_of_a_grader_are_listed_newest_first(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.batches.batches._PAGE", 2)
    create(client)
    create(client, "other", "async def grade(thread):\n    return 1.0\n")
    client.put(f"{PROJECT}/graders/exact", json={"source": GOOD + "# changed\n"})
    asked = ["grader=exact@1", "grader=other", "grader=other", "grader=exact&grader=other", "grader=other"]
    first, second, third, fourth, _ = made = [submit(client, lines(1), query) for query in asked]

    def found(query: str) -> list[str]:
        return [batch["id"] for batch in client.get(f"{URL}?{query}").json()]

    assert found("grader=exact") == [fourth, first]
    assert found("grader=exact@1") == [first]
    assert found("grader=exact@2") == [fourth]
    assert found("grader=other&limit=2") == [made[4], fourth]
    assert found(f"grader=other&limit=2&before={fourth}") == [third, second]
    assert found("grader=nothing") == []
    assert found("limit=2") == [made[4], fourth]
    assert found(f"before={second}") == [first]
    problem(client.get(f"{URL}?before=newest"), 422, "invalid-request")
    problem(client.get(f"{URL}?grader=exact@x"), 422, "invalid-request")


def test_the_threads_of_another_batch_are_scored_again(client: httpx.Client) -> None:
    create(client)
    create(client, "long", "async def grade(thread):\n    return len(thread.completion())\n")
    first = submit(client, [*lines(2500), b"no thread\n"])
    body = {"graders": [{"key": "exact", "weight": 2.0}, {"key": "long"}], "threads_of": first}
    made = client.post(URL, json=body)
    assert made.status_code == 202, made.text
    again_id = str(made.json()["id"])
    finished(client, again_id)
    finished(client, first)
    assert client.get(f"{URL}/{again_id}/threads").content == client.get(f"{URL}/{first}/threads").content
    again = [one for one in outcomes(client, again_id) if one["grader"] == "exact@1"]
    assert [{**one, "run_ms": 0} for one in again] == [{**one, "run_ms": 0} for one in outcomes(client, first)]
    assert client.delete(f"{URL}/{first}").status_code == 204
    assert len(outcomes(client, again_id)) == 7503  # it has a copy of the threads, and combined outcomes
    problem(client.post(URL, json=body), 404, "not-found")


def test_a_batch_is_of_threads_or_of_those_of_one_that_is_there(client: httpx.Client) -> None:
    create(client)
    first = submit(client, lines(1))
    for wrong in ({}, {"threads_of": first, "threads": [{"completion": "4"}]}):
        said = problem(client.post(URL, json={"graders": [{"key": "exact"}], **wrong}), 422, "invalid-request")
        assert "threads_of" in said
    for missing in ("none", "../..", "*"):
        problem(client.post(URL, json={"graders": [{"key": "exact"}], "threads_of": missing}), 404, "not-found")
    client.post("/v1/projects", json={"key": "other"})
    other = PROJECT.replace("default", "other")
    assert client.post(f"{other}/graders", json={"key": "exact", "source": GOOD}).status_code == 201
    theirs = client.post(f"{other}/batches", json={"graders": [{"key": "exact"}], "threads_of": first})
    problem(theirs, 404, "not-found")


def test_a_failed_copy_leaves_nothing(client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client)
    first = submit(client, lines(100))
    finished(client, first)
    read = batch_threads.read

    def broken(*given: Any) -> Iterator[bytes]:
        yield from read(*given)
        raise PayloadLost("the threads of the batch no longer exist: send them again")

    monkeypatch.setattr(batch_threads, "read", broken)
    before = left(client, service)
    answer = client.post(URL, json={"graders": [{"key": "exact"}], "threads_of": first})
    assert "no longer exist: send them again" in problem(answer, 404, "not-found")
    assert left(client, service) == before


def test_outcomes_are_packed_where_asked(client: httpx.Client) -> None:
    create(client)
    batch = submit(client, lines(1500))
    finished(client, batch)
    url = f"{URL}/{batch}/outcomes"
    with client.stream("GET", url, headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        unpacked = gzip.decompress(b"".join(packed.iter_raw()))
    plain = client.get(url, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == unpacked


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_few_outcomes_come_in_one_piece(client: httpx.Client, encoding: str) -> None:
    create(client)
    batch = submit(client, lines(3))
    finished(client, batch)
    answer = client.get(f"{URL}/{batch}/outcomes", headers={"Accept-Encoding": encoding})
    assert int(answer.headers["content-length"]) > 0
    assert len(answer.text.splitlines()) == 3


def test_threads_come_back_as_they_were_sent(client: httpx.Client) -> None:
    create(client)
    sent = [line.rstrip(b"\n") for line in lines(2500)]
    batch = submit(client, b"\n".join(sent))  # the last line has no line end
    for _ in range(2):  # while it may run, and after it has ended
        for after in (-1, 0, 1023, 1024, 2498, 2499):
            answer = client.get(f"{URL}/{batch}/threads?after={after}")
            assert answer.headers["content-type"] == "application/x-ndjson"
            assert answer.content.splitlines() == sent[after + 1 :]
        finished(client, batch)
    problem(client.get(f"{URL}/no-such/threads"), 404, "not-found")
    client.delete(f"{URL}/{batch}").raise_for_status()
    problem(client.get(f"{URL}/{batch}/threads"), 404, "not-found")


def test_outcomes_of_several_graders_come_thread_by_thread_in_the_order_of_the_batch(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "import time\nasync def grade(thread):\n    time.sleep(0.0003)\n    return int(thread.completion()) / 8\n"
    fails = "async def grade(thread):\n    return 1 / int(thread.completion())\n"
    create(client, "slow", slow)
    create(client, "fails", fails)
    create(client, "exact")
    batch = submit(client, lines(2300), "grader=slow&grader=fails&grader=exact@1&weight=2&weight=0&weight=0.5")
    over = finished(client, batch)
    assert (over["total"], over["done"], over["errors"]) == (6900, 6900, {"exception": 288})

    found = outcomes(client, batch)

    assert [(one["index"], one["id"]) for one in found] == [(n, f"t{n}") for n in range(2300) for _ in range(4)]
    assert [one["grader"] for one in found] == ["slow@1", "fails@1", "exact@1", "combined"] * 2300
    digits = [number % 8 for number in range(2300)]
    assert over["weighted_mean"] == pytest.approx((2 * sum(digits) / 8 + 0.5 * digits.count(4)) / 2300)
    assert [one["score"] for one in found[::4]] == [digit / 8 for digit in digits]
    assert [one["score"] for one in found[1::4]] == [1 / digit if digit else None for digit in digits]
    assert [one["score"] for one in found[2::4]] == [float(digit == 4) for digit in digits]
    sums = [2 * digit / 8 + 0.5 * (digit == 4) if digit else None for digit in digits]  # a missing part is an error
    assert [one["score"] for one in found[3::4]] == sums
    of_part: Any = found[1]["error"]
    assert found[3]["error"] == {**of_part, "message": f"fails@1: {of_part['message']}"}
    assert outcomes(client, batch, "?after=1998") == found[4 * 1999 :]

    assert over["weighted"] and over["combined"] is None
    scored = [one for one in sums if one is not None]
    jobs: list[Job] = []
    run = run_job.run

    def counted(job: Job, *rest: Any) -> bytes:
        jobs.append(job)
        return run(job, *rest)

    monkeypatch.setattr(run_job, "run", counted)
    with ThreadPoolExecutor(3) as together:
        answers = list(together.map(lambda _: client.get(f"{URL}/{batch}?combined=true").json(), range(3)))
    assert len(jobs) == 1  # the others are kept
    for answer in answers:
        combined = answer["combined"]
        counts = combined["grader"], combined["count"], combined["scored"], combined["errors"]
        assert counts == ("combined", 2300, len(scored), {"exception": 288})
        assert combined["mean"] == pytest.approx(sum(scored) / len(scored))
        assert sum(part["count"] for part in combined["histogram"]) == len(scored)
    interval = client.get(f"{URL}/{batch}?bootstrap=true").json()["combined"]["interval"]
    assert (interval["method"], interval["low"] < combined["mean"] < interval["high"]) == ("bca", True)


def test_combined_outcomes_are_looked_at_as_those_of_a_grader(client: httpx.Client) -> None:
    create(client, "combined")
    create(client, "first", "async def grade(thread):\n    return int(thread.completion()) / 8\n")
    sent = [b'{"id": "t%d", "completion": "%d", "metadata": {"label": %d}}\n' % (n, n % 8, n % 2) for n in range(40)]
    one = submit(client, sent, "grader=combined&grader=first&weight=1&weight=1")
    other = submit(client, sent, "grader=combined&grader=first&weight=0&weight=3")
    plain = submit(client, sent, "grader=combined&grader=first")
    for batch in (one, other, plain):
        finished(client, batch)

    assert [row["grader"] for row in outcomes(client, plain)] == ["combined@1", "first@1"] * 40
    found = client.get(f"{URL}/{one}/table?grader=combined&sort=-score&limit=6").json()
    assert found["total"] == 40
    shown = [(row["index"], row["score"], row["completion"], row["grader"]) for row in found["rows"]]
    assert shown == [(index, 1.5, "4", "combined") for index in (36, 28, 20, 12, 4)] + [(39, 0.875, "7", "combined")]
    named = client.get(f"{URL}/{one}/table?grader=combined@1&low=1").json()["total"]  # a grader of this name
    assert (named, client.get(f"{URL}/{one}/errors?grader=combined").json()["total"]) == (5, 0)
    compared = client.get(f"{PROJECT}/compare?a={one}&b={other}&grader=combined").json()
    assert (compared["mean_a"], compared["mean_b"], compared["scored"]) == (3.5 / 8 + 0.125, 10.5 / 8, 40)
    agreed = client.get(f"{URL}/{one}/agreement?grader=combined&label=metadata.label").json()
    assert (agreed["grader_mean"], agreed["label_mean"]) == (3.5 / 8 + 0.125, 0.5)
    assert client.get(f"{URL}/{one}/agreement?grader=first&label=combined").json()["label_mean"] == 3.5 / 8 + 0.125
    wanted = {"model": "m", "grader": "combined"}
    refused = client.post(f"{URL}/{one}/feedback", json=wanted)
    assert "name one of combined@1, first@1" in problem(refused, 422, "invalid-request")
    problem(client.get(f"{URL}/{plain}/table?grader=combination"), 422, "invalid-request")
    assert client.get(f"{URL}/{plain}?combined=true").json()["combined"] is None


def test_a_batch_may_be_one_json_body(client: httpx.Client) -> None:
    create(client)
    body = {"graders": [{"key": "exact", "weight": 3}], "threads": [{"completion": "4"}, {"completion": "5"}]}
    response = client.post(URL, content=json.dumps(body, indent=1), headers={"Content-Type": "application/json"})
    assert response.status_code == 202, response.text
    over = finished(client, response.json()["id"])
    assert (over["done"], over["weighted_mean"]) == (2, 1.5)
    body["graders"] = [{"key": "exact", "weight": None}]  # as JavaScript writes NaN
    assert "Expected `float`, got `null`" in problem(client.post(URL, json=body), 422, "invalid-request")


def test_a_batch_has_the_budget_that_it_was_sent_with(client: httpx.Client) -> None:
    create(client)
    body = {"graders": [{"key": "exact"}], "threads": [{"completion": "4"}], "budget": {"usd": 2.5}}
    made = client.post(URL, json={**body, "replies": "new"}).json()
    budget = {"usd": 2.5, "tokens": None}
    assert (made["budget"], made["replies"]) == (budget, "new")
    over = finished(client, made["id"])
    assert (over["budget"], over["replies"]) == (budget, "new")
    one_line: dict[str, Any] = {"content": b'{"completion": "4"}\n', "headers": LINES}
    query: dict[str, str | int] = {"grader": "exact", "budget_tokens": 100}
    made = client.post(URL, params=query, **one_line).json()
    assert (made["budget"], made["replies"]) == ({"usd": None, "tokens": 100}, "kept")
    for wrong in ({}, {"usd": -1}, {"tokens": 1.5}, {"cost": 1}, {"usd": 1, "period": "day"}):
        assert client.post(URL, json={**body, "budget": wrong}).status_code == 422, wrong
    assert client.post(URL, params={"budget_usd": 1}, json=body).status_code == 422
    assert client.post(URL, params={"grader": "exact", "budget_usd": "nan"}, **one_line).status_code == 422


def test_a_line_that_is_no_thread_is_an_outcome(client: httpx.Client) -> None:
    create(client)
    content = b'{"completion": "4"}\r\n{broken\n\n\xff\xfe\n[1]\n{"completion": "5"}\n \n\n'
    batch = submit(client, content)
    assert finished(client, batch)["errors"] == {"bad_input": 4}
    assert [one["score"] for one in outcomes(client, batch)] == [1.0, None, None, None, None, 0.0]


LONG = b'{}\n{"completion": "' + b"x" * (5 * 1024 * 1024)


@pytest.mark.parametrize(
    ("content", "status", "name", "said"),
    [
        *((empty, 422, "invalid-request", "empty") for empty in (b"", b"\n", b" \r\n\t \n")),
        (LONG, 413, "too-large", "line 2 is longer than 4194304 bytes"),
    ],
    ids=["nothing", "a line end", "white space", "a long line"],
)
def test_a_batch_that_is_empty_or_has_too_long_a_line_is_refused(
    client: httpx.Client, service: Service, content: bytes, status: int, name: str, said: str
) -> None:
    create(client)
    response = client.post(f"{URL}?grader=exact", content=content, headers=LINES)
    assert said in problem(response, status, name)
    assert left(client, service) == []


def left(client: httpx.Client, service: Service) -> list[object]:
    """All traces of batches: payloads, listed batches and garbage."""
    folder = service.settings.data_dir / "spool" / "payloads"
    files = list(folder.iterdir()) if folder.exists() else []
    return [*files, *client.get(URL).json(), *service.store.redis.zrange(redis_keys.GARBAGE, 0, -1)]


@pytest.mark.parametrize(
    ("query", "status", "name", "says"),
    [
        ("", 422, "invalid-request", "names no grader"),
        ("grader=nothing", 404, "not-found", "'nothing'"),
        ("grader=exact@7", 404, "not-found", "no version 7"),
        ("grader=exact@x", 422, "invalid-request", "names no version"),
        ("grader=exact&grader=exact@1", 422, "invalid-request", "twice"),
        ("grader=exact&weight=1&weight=2", 422, "invalid-request", "2 weights"),
        ("grader=exact&weight=nan", 422, "invalid-request", "finite"),
        ("&".join(["grader=exact"] * 17), 422, "invalid-request", "at most 16"),
    ],
)
def test_graders_that_make_no_sense_are_refused_before_the_body(
    client: httpx.Client, query: str, status: int, name: str, says: str
) -> None:
    create(client)
    endless = (b'{"completion": "4"}\n' * 1000 for _ in range(2000))
    assert says in problem(client.post(f"{URL}?{query}", content=endless, headers=LINES), status, name)


def test_a_connection_that_breaks_leaves_nothing(client: httpx.Client, service: Service, secret: str) -> None:
    create(client)
    address = (httpx.URL(service.url).host, httpx.URL(service.url).port or 80)
    head = (
        f"POST {URL}?grader=exact HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/x-ndjson\r\nContent-Length: 9000000\r\n\r\n"
    )
    with socket.create_connection(address) as connection:
        connection.sendall(head.encode() + b"".join(lines(60_000)))
        eventually(lambda: left(client, service) != [])
    eventually(lambda: left(client, service) == [])


def test_a_stalled_upload_is_given_up(client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client)
    monkeypatch.setattr(bodies, "SLOW_S", 0.3)

    def halting() -> Iterator[bytes]:
        yield b"{}\n"
        time.sleep(1)
        yield b"{}\n"

    response = client.post(f"{URL}?grader=exact", content=halting(), headers=LINES)
    assert "0.3 s" in problem(response, 408, "timeout")
    assert left(client, service) == []


def test_events_tell_of_progress_until_the_end_and_ask_redis_once_for_all_streams(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(0.02)\n    return 1.0\n")
    asked: list[bool] = []
    get = service.store.batches.get

    def counted(project: str, batch_id: str, *, summary: bool = True) -> Batch:
        asked.append(summary)
        return get(project, batch_id, summary=summary)

    batch = submit(client, lines(100), "grader=slow")
    started = time.monotonic()

    def watch() -> list[str]:
        with client.stream("GET", f"{URL}/{batch}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            return [line for line in stream.iter_lines() if line.startswith(("event:", "data:"))]

    monkeypatch.setattr(service.store.batches, "get", counted)
    with ThreadPoolExecutor(40) as watching:
        told = [found.result() for found in [watching.submit(watch) for _ in range(40)]]
    seconds = time.monotonic() - started
    assert {len(set(one[-2:])) for one in told} == {2}
    assert all(one[0] == "event: progress" and one[-2] == "event: end" for one in told)
    (last,) = {one[-1] for one in told}  # the same summary
    assert json.loads(last.removeprefix("data: "))["state"] == "finished"
    assert len(asked) - 40 <= seconds / progress_events.POLL_S + 5  # each stream calls it once at its start
    assert asked.count(True) == 1
    assert service.services.watching._watched == {}


def test_a_stream_of_a_batch_that_is_deleted_ends_without_its_end(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> Batch:
        raise NotFound("there is no such batch")

    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(0.02)\n    return 1.0\n")
    batch = submit(client, lines(200), "grader=slow")
    with client.stream("GET", f"{URL}/{batch}/events", timeout=20) as stream, monkeypatch.context() as patch:
        incoming = stream.iter_lines()
        assert next(incoming) == "event: progress"
        patch.setattr(service.store.batches, "get", gone)
        assert "event: end" not in list(incoming)
    assert service.services.watching._watched == {}
    client.post(f"{URL}/{batch}/cancel")


def test_a_batch_without_retryable_errors_stays_as_it_is_when_it_is_retried(client: httpx.Client) -> None:
    create(client, "fails", "async def grade(thread):\n    return 1 / float(thread.completion())\n")
    batch = submit(client, lines(3), "grader=fails")
    over = client.get(f"{URL}/{batch}", params={"wait_s": 30}).json()
    assert over["state"] == "finished"
    again = client.post(f"{URL}/{batch}/retry")
    assert again.status_code == 202 and again.json() == over
    assert client.post(f"{URL}/{'0' * 20}/retry").status_code == 404


def test_a_cancelled_batch_keeps_what_it_has(client: httpx.Client, service: Service) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(0.002)\n    return 1.0\n")
    batch = submit(client, lines(5000), "grader=slow")
    while not client.get(f"{URL}/{batch}").json()["done"]:
        time.sleep(0.05)
    cancelled = client.post(f"{URL}/{batch}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert 0 < cancelled["done"] < 5000
    assert len(outcomes(client, batch)) == cancelled["done"]
    refused = client.post(f"{URL}/{batch}/retry")
    assert refused.status_code == 409 and "cancelled" in refused.json()["detail"]
    payload = Path(service.store.spool._payload(batch))
    payload.unlink()
    payload.mkdir()  # it cannot be removed as a file; the janitor tries again later
    assert client.delete(f"{URL}/{batch}").status_code == 204
    assert service.store.redis.zscore(redis_keys.GARBAGE, batch)
    payload.rmdir()
    for gone, path in product((batch, "x:chunks"), ("", "/outcomes", "/events")):
        problem(client.get(f"{URL}/{gone}{path}"), 404, "not-found")


def test_a_batch_outlives_its_grader(client: httpx.Client) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(0.0005)\n    return 1.0\n")
    batch = submit(client, lines(2000), "grader=slow")
    assert client.delete(f"{PROJECT}/graders/slow").status_code == 204
    assert finished(client, batch)["scored"] == 2000


def test_a_project_that_has_too_much_waiting_is_asked_to_come_again(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    monkeypatch.setattr(service.store.backlog, "most", Waiting(5, 10))
    body = {"graders": [{"key": "exact"}], "threads": [{"completion": "4"}] * 3}
    response = client.post(f"{PROJECT}/batches", json=body)
    finished(client, response.json()["id"])
    service.store.redis.hset(redis_keys.WAITING, "default", 3)  # the value before a worker scored them
    service.store.redis.hset(redis_keys.ACTIVE, "default", 1)
    response = client.post(f"{PROJECT}/batches", json=body)
    assert "has 3 completions in 1 batches waiting" in problem(response, 429, "queue-full")
    assert response.headers["retry-after"] == "5"


def test_an_answer_waits_for_the_end_of_the_batch(client: httpx.Client) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(1)\n    return 1\n")
    url = f"{URL}/{submit(client, lines(5), 'grader=slow')}"
    started = time.monotonic()
    assert client.get(url, params={"wait_s": 0.3}).json()["state"] in ("queued", "running")
    assert time.monotonic() - started >= 0.3
    cancel = threading.Timer(0.5, lambda: httpx.post(f"{client.base_url}{url}/cancel", headers=client.headers))
    cancel.start()
    assert client.get(url, params={"wait_s": 30}).json()["state"] == "cancelled"
    assert client.get(url, params={"wait_s": 30}).json()["state"] == "cancelled"
    assert time.monotonic() - started < 10
    cancel.join()


def test_an_answer_waits_for_nothing_that_is_not_there(client: httpx.Client) -> None:
    assert client.get(f"{URL}/no", params={"wait_s": 30}).status_code == 404
    assert client.get(f"{URL}/no", params={"wait_s": 31}).status_code == 422


def test_a_batch_is_kept_and_no_longer(client: httpx.Client) -> None:
    create(client)
    batch = submit(client, lines(3))
    assert not client.get(f"{URL}/{batch}").json()["kept"]
    assert client.patch(f"{URL}/{batch}", json={"kept": True}).json()["kept"]
    assert client.get(f"{URL}/{batch}").json()["kept"]
    assert not client.patch(f"{URL}/{batch}", json={"kept": False}).json()["kept"]
    problem(client.patch(f"{URL}/{batch}", json={"kept": True, "state": "finished"}), 422, "invalid-request")
    problem(client.patch(f"{URL}/{'0' * 20}", json={"kept": True}), 404, "not-found")


def damage(service: Service, batch: str, unit: int, is_gone: bool) -> None:
    path = Path(service.store.spool._outcomes(batch, unit, 1))
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def test_outcomes_that_are_lost_are_an_error_that_stays(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    batch = submit(client, lines(100))
    finished(client, batch)
    damage(service, batch, 0, is_gone=True)
    problem(client.get(f"{URL}/{batch}/outcomes"), 503, "unavailable")  # perhaps only this process does not see it yet
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    lost = problem(client.get(f"{URL}/{batch}/outcomes"), 410, "outcomes-lost")
    assert "threads 0 to 99" in lost
    assert "score its threads again" in lost
    assert client.get(f"{URL}/{batch}").json()["state"] == "finished"
    again = client.post(URL, json={"graders": [{"key": "exact"}], "threads_of": batch})
    assert finished(client, again.json()["id"])["done"] == 100


@pytest.mark.parametrize(("is_gone", "encoding"), [(True, "gzip"), (False, "identity")])
def test_a_transfer_that_meets_a_lost_chunk_breaks_off(
    client: httpx.Client, service: Service, secret: str, monkeypatch: pytest.MonkeyPatch, is_gone: bool, encoding: str
) -> None:
    create(client)
    batch = submit(client, lines(8000))
    finished(client, batch)
    plan = service.store.batches.plan(batch)
    assert plan is not None
    damage(service, batch, len(plan.chunks) - 1, is_gone)
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    url = f"{URL}/{batch}/outcomes"
    with client.stream("GET", url, headers={"Accept-Encoding": encoding}) as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    whole = plan.chunks[-1].first_index
    with gradebox.Client(service.url, api_key=secret) as user:
        with pytest.raises(gradebox.OutcomesLost, match="score its threads again"):
            list(user.batches.get(batch).outcomes())
        assert [one.index for one in user.batches.get(batch).outcomes(limit=whole)] == list(range(whole))
