"""Tests of unmodified RewardClient over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import pytest
from pydantic import ValidationError

from tests.api.dialects.reward.conftest import FAULTS, Reward
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from adaptive_sdk.external import Request, RewardClient

pytestmark = [pytest.mark.service, pytest.mark.sandbox]
_T = TypeVar("_T")


def request(text: str, **more: Any) -> Request:
    from adaptive_sdk.external import Request, Turn

    return Request(turns=[Turn(role="user", content="?"), Turn(role="assistant", content=text)], **more)


def reward_client(url: str) -> RewardClient:
    from adaptive_sdk.external import RewardClient  # here, because each test process would import it to collect tests

    return RewardClient(url, timeout=30)


def asked(url: str, ask: Callable[[Any], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        return await ask(reward_client(url))

    return asyncio.run(run())


def refused(url: str, ask: Callable[[Any], Awaitable[Any]]) -> dict[str, Any]:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        asked(url, ask)
    problem: dict[str, Any] = caught.value.response.json()
    assert problem["status"] == caught.value.response.status_code
    return problem


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_completion_is_scored(reward: Reward, slash: str) -> None:
    answer = asked(reward.url + slash, lambda client: client.score(request("four")))
    assert type(answer).__name__ == "Response"
    assert (answer.reward, answer.id) == (4.0, None)
    assert answer.metadata["grader"] == "length@1"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_base_url_names_the_paths_below_it(reward: Reward, method: str) -> None:
    answer = httpx.request(method, reward.url)
    path = httpx.URL(reward.url).path
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:gradebox:problem:not-found")
    assert f"POST to {path}/score or {path}/batch_score" in answer.json()["detail"]


def test_turns_and_metadata_reach_the_grader(reward: Reward) -> None:
    async def ask(client: Any) -> list[float]:
        requests = [request("metadata", metadata={"reward": 0.25}), request("metadata"), request("turns")]
        return [(await client.score(one)).reward for one in requests]

    assert asked(reward.url, ask) == [0.25, -1.0, 2.0]


def test_a_thread_without_a_completion_is_marked(reward: Reward) -> None:
    async def ask(client: Any) -> list[Any]:
        from adaptive_sdk.external import Request, Turn

        turns = [Turn(role="assistant", content="abc"), Turn(role="user", content="turns")]
        return [await client.score(Request(turns=turns[:last], metadata=None)) for last in (1, 2)]

    ended, open_ = asked(reward.at(grader="turns"), ask)
    assert (ended.reward, open_.reward) == (1.0, 2.0)
    assert "no_completion" not in ended.metadata
    assert open_.metadata["no_completion"] is True


def test_a_reason_and_what_was_printed_are_in_the_metadata(reward: Reward) -> None:
    metadata = asked(reward.url, lambda client: client.score(request("reason"))).metadata
    assert metadata["reason"].startswith("half half")
    assert metadata["stdout"].startswith("xxx")
    assert asked(reward.url, lambda client: client.score(request("details"))).metadata["details"] == {"votes": [1, 0]}


def test_a_batch_keeps_its_order(reward: Reward) -> None:
    requests = [request("x" * number, id=number) for number in range(200)]
    answers = asked(reward.url, lambda client: client.batch_score(requests))
    assert [(one.reward, one.id) for one in answers] == [(float(number), number) for number in range(200)]
    assert asked(reward.url, lambda client: client.batch_score([])) == []


@pytest.mark.parametrize("text, kind", FAULTS)
def test_a_completion_without_a_score_fails_its_call(reward: Reward, text: str, kind: str) -> None:
    problem = refused(reward.url, lambda client: client.score(request(text)))
    assert (problem["status"], problem["type"]) == (422, "urn:gradebox:problem:not-scored")
    assert problem["errors"][0]["kind"] == kind
    assert problem["detail"].startswith(f"request 0 of 1 has no score: {kind}: ")


def test_completions_without_a_score_fail_their_whole_batch_and_are_named(reward: Reward) -> None:
    """Also one that the grader does not apply to."""
    texts = ["fine", "off", "fine", "boom", "nan"]
    problem = refused(reward.url, lambda client: client.batch_score([request(text) for text in texts]))
    assert (problem["status"], problem["type"]) == (422, "urn:gradebox:problem:not-scored")
    off = {"index": 1, "kind": "not_applicable", "message": "no documents", "retryable": False}
    assert problem["errors"][0] == off
    assert [(one["index"], one["kind"]) for one in problem["errors"][1:]] == [(3, "exception"), (4, "bad_return")]
    assert problem["detail"].startswith("request 1 of 5 has no score: not_applicable: no documents (3 have none)")


def test_a_grader_says_what_it_is(reward: Reward) -> None:
    info = asked(reward.url, lambda client: client.info())
    assert (info.name, info.version, info.description) == ("Length", "1", "how long it is")


def test_any_metadata_is_valid(reward: Reward) -> None:
    assert asked(reward.url, lambda client: client.validate_metadata({"a": [1]})).is_valid
    many = asked(reward.url, lambda client: client.batch_validate_metadata([{}, {"b": None}]))
    assert [one.is_valid for one in many.responses] == [True, True]


def test_no_metadata_is_valid_for_a_grader_that_is_not_there(reward: Reward) -> None:
    from jsonschema.exceptions import SchemaError

    with pytest.raises(SchemaError):
        asked(reward.at(grader="nothing"), lambda client: client.validate_metadata({}))


def test_blocking_calls_find_the_grader_by_the_user_name(reward: Reward) -> None:
    client = reward_client(reward.at(user=f"{reward.project}+length"))
    assert client.blocking_info().name == "Length"
    assert [one.reward for one in client.blocking_batch_score([request("a"), request("bb")])] == [1.0, 2.0]
    with pytest.raises(ValidationError):
        client.blocking_batch_score([request("boom")])
    with pytest.raises(ValidationError):
        reward_client(reward.url).blocking_info()


def test_the_key_is_a_password_or_alone(reward: Reward) -> None:
    key, host = reward.service.key, reward.service.url.removeprefix("http://")
    for url in (reward.at("anybody"), f"http://{key}@{host}/reward/{reward.project}/length"):
        assert asked(url, lambda client: client.score(request("abc"))).reward == 3.0
    bearer = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{reward.at(key='')}/info", headers=bearer).json()["name"] == "Length"


def test_whoever_may_not_is_refused(reward: Reward, service: Service) -> None:
    reads = service.client().keys.create("reads", [reward.project], role="read").secret
    other = service.client().keys.create("other", ["default"], role="score").secret
    for key, status in [("", 401), ("wrong", 401), (reads, 403), (other, 404)]:
        assert refused(reward.at(key=key), lambda client: client.score(request("x")))["status"] == status
        batch = refused(reward.at(key=key), lambda client: client.batch_score([request("x")]))
        assert batch["status"] == status
    assert asked(reward.at(key=reads), lambda client: client.info()).name == "Length"
    assert refused(reward.at(key=other), lambda client: client.info())["status"] == 404


def test_a_grader_that_is_not_there_or_not_run_says_so(reward: Reward, service: Service) -> None:
    from adaptive_sdk import Adaptive

    Adaptive(service.url, service.key).graders.create.custom(key="own", project=reward.project)
    calls: list[Callable[[Any], Awaitable[Any]]] = [
        lambda client: client.score(request("x")),
        lambda client: client.batch_score([request("x")]),
        lambda client: client.info(),
    ]
    for ask in calls:
        assert refused(reward.at(grader="nothing"), ask)["status"] == 404
        assert "cannot be run" in refused(reward.at(grader="own"), ask)["detail"]


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"{}", 422, "turns"),
        (b'{"turns": [], "more": 1}', 422, "more"),
        (b'{"turns": ', 422, "not JSON"),
        (b'{"turns": [{"role": "user"}]}', 422, "bad_input"),
        (b'{"turns": 7}', 422, "bad_input"),
        (b'{"turns": [], "metadata": 7}', 422, "bad_input"),
        (b'{"turns": [{"role": "assistant", "content": "%b"}]}' % (b"x" * (4 << 20)), 413, "longer than"),
    ],
)
def test_a_request_that_is_none_is_refused(reward: Reward, body: bytes, status: int, expected: str) -> None:
    headers = {"Authorization": f"Bearer {reward.service.key}"}
    response = httpx.post(f"{reward.at(key='')}/score", content=body, headers=headers, timeout=30)
    assert response.status_code == status
    assert expected in response.json()["detail"]


def test_too_many_at_once_are_refused(reward: Reward) -> None:
    problem = refused(reward.url, lambda client: client.batch_score([request("x")] * 1001))
    assert (problem["status"], "one request takes at most 1000" in problem["detail"]) == (413, True)


def test_the_newest_version_scores(reward: Reward, service: Service) -> None:
    graders, source = service.client(reward.project).graders, "async def grade(thread):\n    return {}\n"
    graders.create.function(key="changes", fn=source.format(1))
    graders.update("changes", fn=source.format(-1))
    url = reward.at(grader="changes")
    assert asked(url, lambda client: client.score(request("x"))).reward == -1.0
    assert asked(url, lambda client: client.info()).version == "2"
