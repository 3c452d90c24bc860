import json
import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

import gradebox
from gradebox.client.calls import grader_calls
from gradebox.client.calls.call import Call
from gradebox.errors import TooLarge
from gradebox.outcome import Outcome
from tests.api.conftest import GOOD, PROJECT, Service, create, problem

pytestmark = pytest.mark.sandbox
URL = f"{PROJECT}/graders/exact/score"


def test_each_thread_has_an_outcome_in_order(client: httpx.Client) -> None:
    create(client)
    threads = [{"completion": "4"}, {"completion": "5"}, {"no": "thread"}, {"id": "x", "completion": "4"}] * 50
    answer = client.post(URL, json={"threads": threads}).json()
    assert [outcome["index"] for outcome in answer["outcomes"]] == list(range(200))
    assert [outcome["score"] for outcome in answer["outcomes"]] == [1.0, 0.0, None, 1.0] * 50
    assert answer["outcomes"][2]["error"]["kind"] == "bad_input"
    summary = answer["summary"]
    counts = (summary["grader"], summary["count"], summary["scored"], summary["errors"])
    assert counts == ("exact@1", 200, 150, {"bad_input": 50})


def test_the_summary_warns_of_a_grader_that_another_python_checked(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.routes.graders.PYTHON", "3.1")
    create(client)
    summary = client.post(URL, json={"threads": [{"completion": "4"}]}).json()["summary"]
    assert summary["warning_kinds"] == ["python"]


def test_threads_may_be_printed_over_several_lines(client: httpx.Client) -> None:
    create(client)
    body = json.dumps({"threads": [{"completion": "4", "metadata": {"a": ["b"]}}]}, indent=4).replace("\n", "\r\n")
    answer = client.post(URL, content=body, headers={"Content-Type": "application/json"}).json()
    assert [outcome["score"] for outcome in answer["outcomes"]] == [1.0]


def test_half_an_emoji_is_for_the_sandbox_to_read(client: httpx.Client) -> None:
    create(client, source="async def grade(thread):\n    return ord(thread.completion()[0])\n")
    completions = [rb"\ud83d", rb"\uD83D\uDE00", rb"\ue000", b"x"]
    body = b'{"threads": [%b]}' % b",".join(b'{"completion": "%b"}' % completion for completion in completions)
    answer = client.post(URL, content=body, headers={"Content-Type": "application/json"}).json()
    assert [outcome["score"] for outcome in answer["outcomes"]][1:] == [0x1F600, 0xE000, ord("x")]
    first = answer["outcomes"][0]
    assert first["score"] == 0xD83D or first["error"]["kind"] == "bad_input"


def test_an_older_version_may_be_named(client: httpx.Client) -> None:
    create(client)
    client.put(f"{PROJECT}/graders/exact", json={"source": GOOD.replace("float", "-float")}).raise_for_status()
    threads = [{"completion": "4"}]
    for version, score in ((1, 1.0), (2, -1.0), (None, -1.0)):
        answer = client.post(URL, json={"threads": threads, "version": version}).json()
        assert answer["outcomes"][0]["score"] == score
    problem(client.post(URL, json={"threads": threads, "version": 3}), 404, "not-found")
    for version in (0, -1):
        detail = problem(client.post(URL, json={"threads": threads, "version": version}), 422, "invalid-request")
        assert detail == f"the body is invalid: version is {version}, and must be at least 1"


def test_limits_are_named(client: httpx.Client) -> None:
    create(client)
    assert "no threads" in problem(client.post(URL, json={"threads": []}), 422, "invalid-request")
    many = problem(client.post(URL, json={"threads": [{}] * 1001}), 413, "too-large")
    assert many == "threads: there are 1001, and one request takes at most 1000: send a batch instead"
    big = [{"completion": "4"}, {"completion": "x" * 4_194_304}]
    assert "thread 1 is longer than 4194304 bytes" in problem(client.post(URL, json={"threads": big}), 413, "too-large")


@pytest.mark.usefixtures("worker")
def test_batches_do_not_hold_up_whoever_waits(client: httpx.Client) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(0.02)\n    return 1.0\n")
    create(client)
    threads = [{"completion": "4"}] * 1500
    batch = client.post(f"{PROJECT}/batches", json={"graders": [{"key": "slow"}], "threads": threads}).json()["id"]
    while client.get(f"{PROJECT}/batches/{batch}").json()["state"] == "queued":
        time.sleep(0.02)
    for key in ("exact", "slow"):
        answer = client.post(f"{PROJECT}/graders/{key}/score", json={"threads": threads[:5]}).json()
        assert [one["score"] for one in answer["outcomes"]] == [1.0] * 5
    assert client.post(f"{PROJECT}/batches/{batch}/cancel").json()["state"] == "cancelled"


_GROUPS = "async def grade(threads: list[StringThread]) -> list[float]:\n    return [1.0] * len(threads)\n"


@pytest.mark.parametrize(
    ("setting", "most", "threads", "sent"),
    [
        ("score_threads", 10, [{"completion": "4"}] * 25, [10, 10, 5]),
        ("score_threads", 10, [{"completions": ["4"] * 3}] * 5, [3, 2]),
        ("score_threads", 2, [{"completions": ["4"] * 3}] * 2, [1, 1]),
        ("score_mb", 1, [{"completion": "x" * 100_000}] * 25, [10, 10, 5]),
    ],
)
def test_the_client_learns_how_large_a_request_may_be(
    setting: str,
    most: int,
    threads: list[Any],
    sent: list[int],
    client: httpx.Client,
    service: Service,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It sent a thousand threads, and raised TooLarge."""
    create(client, source=_GROUPS if "completions" in threads[0] else GOOD)
    monkeypatch.setattr(service.services.settings, setting, most)
    score, calls = grader_calls.score, list[int]()

    def noted(project: str, key: str, version: int | None, lines: Sequence[bytes]) -> Call[list[Outcome]]:
        calls.append(len(lines))
        return score(project, key, version, lines)

    monkeypatch.setattr(grader_calls, "score", noted)
    with gradebox.Client(service.url, secret) as user:
        for _ in range(2):
            outcomes = user.graders.score("exact", threads)
            assert [(one.index, one.error) for one in outcomes] == [(number, None) for number in range(len(threads))]
        assert calls == [len(threads), *sent, *sent]
        with pytest.raises(TooLarge, match="longer than"):
            user.graders.score("exact", [{"completion": "x" * 5_000_000}])


@pytest.mark.parametrize("of_project", [False, True])
def test_a_request_has_as_many_threads_and_bytes_as_the_settings_say(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch, of_project: bool
) -> None:
    def limit(name: str, most: int) -> None:
        if of_project:
            client.patch(f"{PROJECT}/limits", json={name: most}).raise_for_status()
        else:
            monkeypatch.setattr(service.services.settings, name, most)

    create(client)
    threads = [{"completion": "4"}] * 1001
    requests = [{"turns": [{"role": "assistant", "content": "4"}]}] * 1001
    reward, run = "/reward/default/exact/{}", "/openai/v1/fine_tuning/alpha/graders/run"
    limit("score_threads", 1001)
    validating = f"{PROJECT}/validate", {"source": GOOD, "threads": threads}
    many = ((URL, {"threads": threads}), validating, (reward.format("batch_score"), {"requests": requests}))
    for path, body in many:
        assert client.post(path, json=body).status_code == 200
    limit("score_threads", 1000)
    limit("score_mb", 1)
    create(client, "groups", _GROUPS)
    groups = {"threads": [{"completions": ["4"] * 500}, {"completions": ["4"] * 501}]}
    answer = client.post(f"{PROJECT}/graders/groups/score", json=groups)
    assert "more than 1000 threads together" in problem(answer, 413, "too-large")
    limit("score_threads", 1001)
    assert client.post(f"{PROJECT}/graders/groups/score", json=groups).status_code == 200
    limit("score_threads", 1000)
    for path, body in many:
        assert "takes at most 1000" in problem(client.post(path, json=body), 413, "too-large")
    for path in (
        URL,
        f"{PROJECT}/validate",
        reward.format("score"),
        reward.format("batch_score"),
        run,
        "/promptfoo/v1/default/exact",
    ):
        answer = client.post(path, content=b"{}" + b" " * (1 << 20), headers={"Content-Type": "application/json"})
        assert (answer.status_code, "longer than 1048576 bytes" in answer.text) == (413, True), answer.text
