"""Tests of `GET /metrics` of a real service, with the parser of Prometheus."""

import itertools
from pathlib import Path
from typing import Literal

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from api.services import Services
from api.settings import ApiSettings
from api.telemetry.exposition import Exposition
from sandbox.pool.pool import Pool
from storage.store import Store
from tests.api.conftest import GOOD, PROJECT, Service, create, finished, problem
from tests.api.in_process import asked, without_redis
from tests.storage.making import accept, wanted
from tests.waiting import eventually

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns off the cache of the answer, so that values are current."""
    monkeypatch.setattr("api.telemetry.exposition.KEPT_S", 0.0)


def test_what_is_answered_is_made_once_a_second_at_most() -> None:
    registry = CollectorRegistry()
    made = itertools.count(1)
    Gauge("made", "How often it was made.", registry=registry).set_function(lambda: next(made))
    exposition = Exposition(registry)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("api.telemetry.exposition.KEPT_S", 60.0)
        assert [exposition.text().endswith(b"made 1.0\n") for _ in range(3)] == [True] * 3
    assert exposition.text().endswith(b"made 2.0\n")


def scraped(service: Service, secret: str = "", **headers: str) -> Samples:
    """All samples, by name and labels."""
    headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
    response = httpx.get(f"{service.url}/metrics", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = [sample for family in text_string_to_metric_families(response.text) for sample in family.samples]
    samples = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}
    assert len(samples) == len(found), "a series comes twice"
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    wanted = frozenset(labels.items())
    return sum(value for (found, has), value in samples.items() if found == name and wanted <= has)


def test_requests_are_counted_by_the_template_of_their_route(service: Service, client: httpx.Client) -> None:
    route = "/v1/projects/{project}/graders/{key}"
    before = scraped(service)
    client.get(f"{PROJECT}/graders/tenants-words")
    client.get(f"{PROJECT}/graders/tenants-words")
    client.request("PROPFIND", "/tenants/words")
    after = scraped(service)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("gradebox_http_requests_total", route=route, method="GET", status="404") == 2
    assert more("gradebox_http_request_seconds_count", route=route, method="GET") == 2
    assert more("gradebox_http_requests_total", route="none", method="other") == 1
    assert not any("tenants" in str(has).lower() for _, has in after)


@pytest.mark.sandbox
def test_what_readyz_names_is_counted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.readiness.LOOK_S", 0.0)
    assert value(scraped(service), "gradebox_troubles") == 0
    monkeypatch.setattr(service.services.shortages, "known", ("no worker",))
    assert value(scraped(service), "gradebox_troubles") == 1
    monkeypatch.setattr(service.services.pool, "trouble", lambda: "the engine hangs")
    assert value(scraped(service), "gradebox_troubles") == 2


@pytest.mark.sandbox
def test_scores_are_counted_by_grader_and_kind_of_error(service: Service, client: httpx.Client, worker: None) -> None:
    create(client, "counted")  # no other test uses this key: the worker may still report scores of other tests
    create(client, "fails", GOOD.replace("return", "1 / len(thread.completion())\n    return"))
    threads = [{"completion": "4"}, {"completion": "5"}, {"completion": ""}]
    body = {"graders": [{"key": "counted"}, {"key": "fails"}], "threads": [*threads, {"no": "thread"}]}
    before = scraped(service)
    batch = client.post(f"{PROJECT}/batches", json=body).json()
    finished(client, str(batch["id"]))
    assert client.post(f"{PROJECT}/graders/counted/score", json={"threads": threads}).status_code == 200

    ended = value(before, "gradebox_batches_ended_total", state="finished", worker="worker-1")
    # The worker reports every few seconds.
    eventually(
        lambda: value(scraped(service), "gradebox_batches_ended_total", state="finished", worker="worker-1") != ended
    )
    samples = scraped(service)

    def more(name: str, **labels: str) -> float:
        return value(samples, name, **labels) - value(before, name, **labels)

    def outcomes(grader: str, outcome: str) -> float:
        return more("gradebox_completions_total", project="default", grader=grader, outcome=outcome)

    assert outcomes("counted", "scored") == 3 + 3
    assert outcomes("fails", "scored") == 2
    assert outcomes("fails", "exception") == 1
    assert outcomes("counted", "bad_input") == outcomes("fails", "bad_input") == 1
    assert outcomes("counted", "scored") - 3 == more(
        "gradebox_completions_total", grader="counted", outcome="scored", worker="worker-1"
    )
    assert more("gradebox_batches_accepted_total") == 1
    assert more("gradebox_batches_ended_total", state="finished") == 1
    assert more("gradebox_chunk_seconds_count", worker="worker-1") == 2
    assert more("gradebox_batch_run_seconds_count") == 1
    assert value(samples, "gradebox_batches_open") == value(samples, "gradebox_chunks_waiting") == 0
    assert value(samples, "gradebox_sandboxes_alive", role="worker") > 0
    assert value(samples, "gradebox_sandboxes_started_total", role="worker", worker="worker-1") > 0
    for role in ("api", "worker"):
        assert value(samples, "gradebox_process_resident_bytes", role=role) > 1 << 20


def test_a_batch_that_is_ended_is_counted_once(service: Service, client: httpx.Client) -> None:
    def cancelled() -> float:
        return value(scraped(service), "gradebox_batches_ended_total", state="cancelled")

    before = cancelled()
    first = accept(service.store, 10_000)  # no worker gets a job for it
    for _ in range(2):
        client.post(f"{PROJECT}/batches/{first}/cancel")
    client.delete(f"{PROJECT}/batches/{first}")
    assert cancelled() == before + 1
    second = accept(service.store, 10_000, wanted(service.store, "second"))
    client.delete(f"{PROJECT}/batches/{second}")
    assert cancelled() == before + 2


def test_only_this_machine_reads_them_without_a_key(service: Service, client: httpx.Client, secret: str) -> None:
    for header in ({"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=127.0.0.1"}, {"Host": "attacker.example"}):
        problem(httpx.get(f"{service.url}/metrics", headers=header), 401, "unauthorized")
        assert scraped(service, secret, **header)
    assert httpx.get(f"{service.url}/metrics", headers={"Authorization": "Bearer"}).status_code == 200
    limited = client.post("/v1/keys", json={"name": "one", "projects": ["default"]}).json()["secret"]
    headers = {"Authorization": f"Bearer {limited}"}
    problem(httpx.get(f"{service.url}/metrics", headers=headers), 403, "forbidden")


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("who", "client", "host", "status"),
    [
        ("local", "127.0.0.1", "localhost", 200),
        ("local", "::1", "[::1]", 200),
        ("local", "::ffff:127.0.0.1", "127.0.0.1", 200),
        ("local", "192.0.2.1", "127.0.0.1", 401),
        ("local", "127.0.0.1", "attacker.example", 401),
        ("key", "127.0.0.1", "localhost", 401),
        ("all", "192.0.2.1", "gradebox.example", 200),
    ],
)
def test_the_setting_says_who_reads_them(
    store: Store, pool: Pool, who: Literal["local", "key", "all"], client: str, host: str, status: int
) -> None:
    response = asked(Services(store, pool, ApiSettings(metrics=who)), "/metrics", client, host)
    assert response.status_code == status


@pytest.mark.sandbox
def test_without_redis_what_this_process_knows_is_told(pool: Pool, tmp_path: Path) -> None:
    response = asked(without_redis(pool, tmp_path), "/metrics", host="localhost")
    assert response.status_code == 200
    assert "gradebox_redis_up 0.0" in response.text
    assert "gradebox_http_requests_open 1.0" in response.text
