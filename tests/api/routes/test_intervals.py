import time
from typing import Any

import httpx
import numpy as np
import pytest

from api.numbers import run_job, summaries
from gradebox.schemas import Batch
from sandbox.errors import InfrastructureError
from storage import redis_keys
from tests.api.conftest import PROJECT, Service, answer_of, create, finished
from tests.api.numbers.computed import bounds
from tests.api.routes.conftest import scored

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
URL = f"{PROJECT}/batches"
JUDGE = """from gradebox import NotApplicable, Score
async def grade(thread):
    number = int(thread.completion())
    if number % 10 == 7:
        raise NotApplicable("seven")
    if number % 10 == 8:
        raise ValueError("eight")
    option = ["no", "partly", "yes"][number % 3]
    return Score(number % 3 / 2, details={"option": option})
"""


def submit(client: httpx.Client, count: int = 60) -> str:
    create(client, "judge", JUDGE)
    threads = [{"completion": str(number)} for number in range(count)]
    return scored(client, ["judge"], threads)


def summary(client: httpx.Client, batch: str, query: str = "") -> dict[str, Any]:
    answer = answer_of(client.get(f"{URL}/{batch}{query}"))
    found: dict[str, Any] = answer["summary"][0]
    return found


SCORES = [number % 3 / 2 for number in range(60) if number % 10 not in (7, 8)]


def test_a_summary_counts_passes_and_options_and_leaves_out_what_has_no_score(client: httpx.Client) -> None:
    found = summary(client, submit(client))
    assert (found["count"], found["scored"], found["not_applicable"], found["errors"]) == (60, 48, 6, {"exception": 6})
    assert (found["passed"], found["pass_rate"]) == (SCORES.count(1.0), SCORES.count(1.0) / 48)
    assert found["options"] == {name: SCORES.count(score) for name, score in (("no", 0), ("partly", 0.5), ("yes", 1))}
    half = 1.959963984540054 * np.std(SCORES, ddof=1) / np.sqrt(48)
    assert (found["interval"]["low"], found["interval"]["high"]) == pytest.approx(
        (np.mean(SCORES) - half, np.mean(SCORES) + half), rel=0, abs=1e-9
    )
    assert found["interval"]["method"] == "normal"


def test_an_interval_by_bootstrap_is_that_of_scipy_and_kept_until_the_batch_is_deleted(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise InfrastructureError("it ended with -9")

    def with_another(project: str, batch: str) -> Batch:
        found = get(project, batch)
        another = found.summary[0].model_copy(update={"grader": "another@1"})
        return found.model_copy(update={"summary": [another, *found.summary]})

    batch = submit(client)
    with monkeypatch.context() as patched:
        patched.setattr(run_job, "run", fail)
        assert summary(client, batch, "?bootstrap=true")["interval"]["method"] == "normal"
    wanted = bounds(np.array(SCORES), 1000)
    found = summary(client, batch, "?bootstrap=true")["interval"]
    assert (found["low"], found["high"]) == wanted
    assert (found["method"], found["resamples"], found["level"]) == ("bca", 1000, 0.95)
    with monkeypatch.context() as patched:
        patched.setattr(run_job, "run", None)  # no new computation
        patched.setattr(service.services, "compute", None)  # no wait for a place to compute
        assert summary(client, batch, "?bootstrap=true")["interval"] == found
    get = service.store.batches.get
    with monkeypatch.context() as patched:  # kept intervals lack a grader that had no score before a retry
        patched.setattr(service.store.batches, "get", with_another)
        both = client.get(f"{URL}/{batch}?bootstrap=true").json()["summary"]
    assert [one["interval"] and one["interval"]["method"] for one in both] == [None, "bca"]
    assert 0 < int(service.store.redis.ttl(redis_keys.intervals(batch))) <= 7 * 24 * 3600
    assert client.delete(f"{URL}/{batch}").status_code == 204
    assert not service.store.redis.exists(redis_keys.intervals(batch))


def test_without_a_bootstrap_or_of_many_scores_the_interval_is_normal_at_once(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_job, "run", None)
    batch, settings = submit(client), service.services.settings
    for of, name, value in ((settings, "bootstrap_resamples", 0), (summaries, "MOST_SCORES", 47)):
        with monkeypatch.context() as patched:
            patched.setattr(of, name, value)
            assert summary(client, batch, "?bootstrap=true")["interval"]["method"] == "normal"


def test_of_a_batch_that_lacks_outcomes_the_interval_stays_that_of_all_its_scores(client: httpx.Client) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(1)\n    return 1.0\n")
    create(client)
    body = {"graders": [{"key": "exact"}, {"key": "slow"}], "threads": [{"completion": str(n)} for n in range(3, 9)]}
    batch = client.post(URL, json=body).json()["id"]
    while client.get(f"{URL}/{batch}").json()["done"] < 6:
        time.sleep(0.05)
    assert client.post(f"{URL}/{batch}/cancel").status_code == 200
    found = finished(client, batch)
    assert (found["state"], found["done"]) == ("cancelled", 6)
    plain = summary(client, batch)
    assert plain["scored"] == 6
    assert plain["interval"]["method"] == "normal"
    assert summary(client, batch, "?bootstrap=true")["interval"] == plain["interval"]
