import json
from collections.abc import Mapping

import httpx
import pytest

from api.http.problems import ProblemError
from api.routes import recorded_scores
from sandbox.pool.pool import Pool
from tests.api.conftest import GOOD, PROJECT, create, problem
from tests.api.routes.conftest import scored

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
URL = f"{PROJECT}/batches"
LINES = {"Content-Type": "application/x-ndjson"}


def submit(client: httpx.Client, count: int) -> str:
    create(client)
    threads = [{"id": f"t{number}", "completion": "4" * (number % 3)} for number in range(count)]
    return scored(client, ["exact"], threads)


def custom(client: httpx.Client, key: str = "human") -> None:
    made = client.post(f"{PROJECT}/graders", json={"key": key, "kind": "custom", "description": "people"})
    assert (made.status_code, made.json()["kind"]) == (201, "custom"), made.text


def record(client: httpx.Client, batch: str, *lines: Mapping[str, object], grader: str = "human") -> httpx.Response:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return client.put(f"{URL}/{batch}/scores", params={"grader": grader}, content=body, headers=LINES)


def test_labels_stand_beside_the_outcomes_and_are_compared_with_them(client: httpx.Client) -> None:
    batch = submit(client, 9)
    custom(client)
    labels = [{"id": f"t{number}", "score": int(number % 3 == 1), "reason": "seen"} for number in range(8)]
    answer = record(client, batch, *labels)
    assert answer.status_code == 200, answer.text
    (said,) = answer.json()["recorded"]
    assert (said["grader"], said["count"], said["mean"]) == ("human@1", 8, 0.375)
    found = [json.loads(line) for line in client.get(f"{URL}/{batch}/outcomes").iter_lines()]
    assert len(found) == 17
    assert (found[2]["id"], found[2]["grader"]) == ("t1", "exact@1")
    assert {name: found[3][name] for name in ("index", "id", "grader", "score", "reason")} == {
        "index": 1, "id": "t1", "grader": "human@1", "score": 1.0, "reason": "seen",
    }  # fmt: skip
    agreed = client.get(f"{URL}/{batch}/agreement", params={"label": "human"}).json()
    assert (agreed["label"], agreed["scored"], agreed["only_grader"], agreed["accuracy"]) == ("human@1", 8, 1, 1.0)
    turned = client.get(f"{URL}/{batch}/agreement", params={"grader": "human@1", "label": "exact"}).json()
    assert (turned["grader"], turned["label"], turned["label_mean"]) == ("human@1", "exact@1", 0.375)
    assert (turned["scored"], turned["only_label"]) == (8, 1)
    sides = {"a": batch, "b": batch, "grader": "exact", "grader_b": "human"}
    compared = client.get(f"{PROJECT}/compare", params=sides).json()
    assert (compared["a"]["grader"], compared["b"]["grader"]) == ("exact@1", "human@1")
    assert (compared["pairs"], compared["only_a"], compared["difference"]) == (8, 1, 0.0)
    assert client.get(f"{URL}/{batch}?bootstrap=true").json()["recorded"] == [said]


def test_what_cannot_be_recorded_says_why(client: httpx.Client, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = submit(client, 3)
    one = {"index": 0, "score": 1}
    absent = problem(record(client, batch, one), 404, "not-found")
    assert "there is no grader 'human'" in absent
    assert "`gradebox graders create human --kind custom` creates one" in absent
    said = problem(record(client, batch, one, grader="exact"), 409, "conflict")
    assert "of kind 'function', which computes its scores itself" in said
    custom(client)
    problem(record(client, "0" * 20, one), 404, "not-found")
    body = client.put(f"{URL}/{batch}/scores", params={"grader": "human"}, json=one)
    problem(body, 415, "unsupported-media-type")
    none = client.put(f"{URL}/{batch}/scores", params={"grader": "human"}, content=b"", headers=LINES)
    assert "line 1 is no score" in problem(none, 422, "invalid-request")
    refused = record(client, batch, {"id": "t0", "score": 1}, {"id": "nobody", "score": 1})
    assert "line 2: the batch has no thread with the id 'nobody'" in problem(refused, 422, "invalid-request")
    monkeypatch.setattr(pool.settings, "text_bytes", 300)
    long = record(client, batch, one | {"reason": "x" * 301})
    assert "a reason of 301 bytes, and at most 300 are kept" in problem(long, 422, "invalid-request")
    assert client.get(f"{URL}/{batch}").json()["recorded"] == []
    run = client.post(URL, json={"graders": [{"key": "human"}], "threads": [{"completion": "4"}]})
    assert "its scores come from outside" in problem(run, 409, "not-runnable")


def test_a_custom_grader_is_made_described_and_not_proved(client: httpx.Client) -> None:
    custom(client)
    url = f"{PROJECT}/graders/human"
    again = client.put(url, json={"kind": "custom", "description": "two people"})
    assert (again.status_code, again.json()["version"], again.json()["description"]) == (200, 1, "two people")
    also: list[dict[str, object]] = [{"timeout_s": 1}, {"source": "x"}, {"config": {"model": "m"}}, {"threads": [{}]}]
    for more in also:
        refused = client.post(f"{PROJECT}/graders", json={"key": "other", "kind": "custom", **more})
        assert "is not run" in problem(refused, 422, "invalid-request")
    assert "of kind 'custom' and stays so" in problem(client.put(url, json={"source": GOOD}), 409, "conflict")
    create(client)
    other = client.put(f"{PROJECT}/graders/exact", json={"kind": "custom"})
    assert "of kind 'function' and stays so" in problem(other, 409, "conflict")
    problem(client.put(url, json={"timeout_s": 3}), 409, "not-runnable")
    proof = client.post(f"{PROJECT}/validate", json={"kind": "custom"})
    assert "no source to check" in problem(proof, 422, "invalid-request")


def test_threads_are_read_no_further_for_a_client_that_is_gone() -> None:
    gone = iter([False, True])
    blocks = iter([b"1\n", b"2\n", b"3\n"])
    with pytest.raises(ProblemError):
        list(recorded_scores._wanted(blocks, lambda: next(gone)))
    assert list(blocks) == [b"3\n"]
