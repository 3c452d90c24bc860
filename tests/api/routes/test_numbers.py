import itertools
from typing import Any

import httpx
import numpy as np
import pytest

from api.numbers import run_job
from tests.api.conftest import PROJECT, Service, answer_of, create, finished, problem
from tests.api.numbers.computed import bounds
from tests.api.routes.conftest import scored

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
URL = f"{PROJECT}/batches"
JUDGE = "async def grade(thread):\n    return float(len(thread.completion()) > 3)\n"
COMPLETIONS = ["ab", "abcd", "abcdef", "4", "4444", "no!", "12345"]
LABELS = [0, 1, 0, 0, 1, 1, 1]


def submit(client: httpx.Client, graders: list[str], completions: list[str]) -> str:
    threads = [
        {"id": f"t{number}", "completion": said, "metadata": {"label": label}}
        for number, (said, label) in enumerate(zip(completions, LABELS, strict=False))
    ]
    return scored(client, graders, threads)


@pytest.fixture
def graders(client: httpx.Client) -> None:
    create(client)
    create(client, "judge", JUDGE)


@pytest.mark.usefixtures("graders")
def test_two_batches_are_compared_by_the_ids_of_their_rows(client: httpx.Client) -> None:
    a = submit(client, ["judge"], COMPLETIONS)
    b = submit(client, ["judge", "exact"], ["abcd", *COMPLETIONS[1:-1]])
    found = answer_of(client.get(f"{PROJECT}/compare", params={"a": a, "b": b, "grader": "judge"}))
    assert (found["paired_by"], found["pairs"], found["only_a"], found["only_b"]) == ("id", 6, 1, 0)
    assert (found["flipped_up"], found["flipped_down"]) == (1, 0)
    assert found["flips"] == [{"id": "t0", "index_a": 0, "index_b": 0, "score_a": 0.0, "score_b": 1.0}]
    wanted = bounds(np.array([1.0, 0, 0, 0, 0, 0]), 1000)
    assert wanted is not None and (found["interval"]["low"], found["interval"]["high"]) == wanted
    assert found["a"]["batch"] == a
    assert found["b"]["grader"] == "judge@1"


@pytest.mark.usefixtures("graders")
def test_a_judge_is_compared_with_labels_in_metadata(client: httpx.Client) -> None:
    batch = submit(client, ["judge", "exact"], COMPLETIONS)
    found = answer_of(client.get(f"{URL}/{batch}/agreement", params={"grader": "judge", "label": "metadata.label"}))
    assert (found["grader"], found["label"], found["scored"]) == ("judge@1", "metadata.label", 7)
    assert (found["values"], found["confusion"]) == ([0.0, 1.0], [[2, 1], [1, 3]])
    # Observed agreement 5/7; by chance (3·3 + 4·4)/49.
    assert found["kappa"] == pytest.approx((5 / 7 - 25 / 49) / (1 - 25 / 49), abs=1e-9)
    assert found["length"]["score"]["value"] > 0.8


@pytest.mark.usefixtures("graders")
def test_what_cannot_be_compared_says_why(client: httpx.Client) -> None:
    one, two = submit(client, ["judge"], COMPLETIONS[:2]), submit(client, ["judge", "exact"], COMPLETIONS[:2])
    compare, url = f"{PROJECT}/compare", f"{URL}/{two}/agreement"
    several = client.get(compare, params={"a": one, "b": two})
    assert "it has judge@1, exact@1. Write grader='judge@1', in the shell --grader judge@1" in problem(
        several, 422, "invalid-request"
    )
    unknown = client.get(compare, params={"a": one, "b": two, "grader": "exact"})
    assert "it has no grader 'exact': it has judge@1" in problem(unknown, 422, "invalid-request")
    problem(client.get(compare, params={"a": one, "b": "0" * 20}), 404, "not-found")
    assert client.put(f"{PROJECT}/graders/judge", json={"source": JUDGE + "# again\n"}).status_code == 200
    versions = [{"key": "judge", "version": number} for number in (1, 2)]
    three = client.post(URL, json={"graders": versions, "threads": [{"completion": "4"}]}).json()["id"]
    finished(client, three)
    both = client.get(compare, params={"a": three, "b": one, "grader": "judge"})
    assert "several of its graders are 'judge', so name one with its version" in problem(both, 422, "invalid-request")
    itself = client.get(url, params={"grader": "judge", "label": "judge@1"})
    assert "its own label" in problem(itself, 422, "invalid-request")
    field = client.get(url, params={"grader": "judge", "label": "label"})
    said = problem(field, 422, "invalid-request")
    assert (
        "it has no grader 'label': it has judge@1, exact@1. For a field of the metadata, write metadata.label" in said
    )
    nan = client.get(url, params={"grader": "judge", "label": "exact", "threshold": "nan"})
    problem(nan, 422, "invalid-request")


@pytest.mark.usefixtures("graders")
def test_a_batch_that_is_scored_again_meanwhile_is_not_compared(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = submit(client, ["judge", "exact"], ["ab", "ab"])  # the program loads SciPy only for scores that differ
    attempts = itertools.count(1)
    monkeypatch.setattr(service.store.batches, "settled", lambda batch: [next(attempts)])
    compared = client.get(f"{PROJECT}/compare", params={"a": batch, "b": batch, "grader": "judge"})
    assert "scored again" in problem(compared, 409, "conflict")
    agreed = client.get(f"{URL}/{batch}/agreement", params={"grader": "judge", "label": "exact"})
    assert "scored again" in problem(agreed, 409, "conflict")


@pytest.mark.usefixtures("graders")
def test_a_batch_that_is_deleted_meanwhile_is_said_to_be(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = submit(client, ["judge"], ["ab", "ab"])
    compute = run_job.run

    def delete_after(*args: Any) -> bytes:
        found = compute(*args)
        assert client.delete(f"{URL}/{batch}").status_code == 204
        return found

    monkeypatch.setattr(run_job, "run", delete_after)
    compared = client.get(f"{PROJECT}/compare", params={"a": batch, "b": batch})
    assert f"batch '{batch}' was deleted" in problem(compared, 404, "not-found")
