"""Tests of unmodified RewardClient over a websocket."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.api.dialects.reward.conftest import FAULTS, Reward
from tests.api.dialects.reward.test_http import request, reward_client
from tests.gradebox.conftest import Service

pytestmark = [pytest.mark.service, pytest.mark.sandbox]
_T = TypeVar("_T")


def over_socket(url: str, ask: Callable[[Any], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        client = await reward_client(url).connect_websocket()
        try:
            return await asyncio.wait_for(ask(client), 60)
        finally:
            await client.drop_websocket()

    return asyncio.run(run())


@pytest.mark.parametrize("slash", ["", "/"])
def test_many_at_once_each_get_their_own(reward: Reward, slash: str) -> None:
    async def ask(client: Any) -> list[float]:
        answers = await asyncio.gather(*(client.score(request("x" * number)) for number in range(300)))
        return [answer.reward for answer in answers]

    assert over_socket(reward.url + slash, ask) == [float(number) for number in range(300)]


def test_a_long_response_comes_in_pieces(reward: Reward) -> None:
    metadata = over_socket(reward.url, lambda client: client.score(request("reason"))).metadata
    assert metadata["reason"].startswith("half half")


def test_large_threads_and_metadata_arrive(reward: Reward) -> None:
    async def ask(client: Any) -> list[float]:
        large, told = (request("x" * 3_000_000), request("metadata", metadata={"reward": 0.5, "é": "😀"}))
        return [(await client.score(large)).reward, (await client.score(told)).reward]

    assert over_socket(reward.url, ask) == [3_000_000.0, 0.5]


@pytest.mark.parametrize("text, kind", FAULTS)
def test_a_completion_without_a_score_is_no_number_and_costs_no_other(reward: Reward, text: str, kind: str) -> None:
    async def ask(client: Any) -> Any:
        return await asyncio.gather(*(client.score(request(one)) for one in ["a", text, "bb", "ccc"]))

    first, failed, *rest = over_socket(reward.url, ask)
    assert [first.reward, *(one.reward for one in rest)] == [1.0, 2.0, 3.0]
    assert math.isnan(failed.reward)
    assert failed.metadata["error"]["kind"] == kind


def test_a_completion_that_the_grader_does_not_apply_to_is_no_number(reward: Reward) -> None:
    async def ask(client: Any) -> Any:
        return await asyncio.gather(*(client.score(request(one)) for one in ["a", "off"]))

    first, off = over_socket(reward.url, ask)
    assert (first.reward, math.isnan(off.reward)) == (1.0, True)
    assert off.metadata["not_applicable"] == "no documents"
    assert "error" not in off.metadata


def test_what_has_no_score_is_refused_by_whoever_reads_strictly(reward: Reward) -> None:
    async def ask(client: Any) -> str:
        await client.send(json.dumps({"turns": [{"role": "assistant", "content": "boom"}], "metadata": None, "id": 7}))
        header = json.loads(await client.recv())
        assert header == {"id": 7, "total_num_chunks": 1}
        return str(json.loads(await client.recv())["chunk"])

    answer = json.loads(asyncio.run(raw(reward, ask)), parse_constant=pytest.fail)
    assert (answer["reward"], answer["id"], set(answer)) == ("NaN", 7, {"reward", "metadata", "id"})


async def raw(reward: Reward, ask: Callable[[Any], Awaitable[_T]]) -> _T:
    async with connect(f"{reward.url.replace('http', 'ws')}/ws") as client:
        return await asyncio.wait_for(ask(client), 30)


def test_whoever_may_not_is_refused_before_the_first_request(reward: Reward, service: Service) -> None:
    reads = service.client().keys.create("reads", [reward.project], role="read").secret
    other = service.client().keys.create("other", ["default"], role="score").secret
    refusals = [(reward.at(key=""), 401), (reward.at(key="wrong"), 401), (reward.at(key=reads), 403)]
    refusals += [(reward.at(key=other), 404), (reward.at(grader="nothing"), 404)]
    for url, status in refusals:
        with pytest.raises(InvalidStatus) as caught:
            over_socket(url, lambda client: client.score(request("x")))
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body)["status"] == status


def test_a_key_that_is_revoked_meanwhile_scores_no_more(reward: Reward, service: Service) -> None:
    keys = service.client().keys
    made = keys.create("short", [reward.project], role="score")

    async def ask(client: Any) -> Any:
        before = await client.score(request("abc"))
        keys.revoke(made.id)
        return before, await client.score(request("abc"))

    before, after = over_socket(reward.at(key=made.secret), ask)
    assert before.reward == 3.0
    assert math.isnan(after.reward)
    assert after.metadata["error"]["kind"] == "unauthorized"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("{}", "turns"),
        ("nonsense", "not JSON"),
        (b"\x00\x01", "not JSON"),
        ('{"turns": []}', "has an `id`"),
        ('{"turns": [], "id": 1, "more": 1}', "more"),
    ],
)
def test_what_cannot_be_answered_closes_with_a_reason_when_the_rest_is_answered(
    reward: Reward, frame: str | bytes, expected: str
) -> None:
    async def ask(client: Any) -> None:
        for number in range(5):
            turns = [{"role": "assistant", "content": "x" * number}]
            await client.send(json.dumps({"turns": turns, "metadata": None, "id": number}))
        await client.send(frame)
        answered = set()
        with pytest.raises(ConnectionClosedError) as caught:
            while True:
                answered.add(json.loads(await client.recv())["id"])
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1008
        assert expected in caught.value.rcvd.reason
        assert answered == set(range(5))

    asyncio.run(raw(reward, ask))


def test_a_frame_that_is_too_long_is_refused(reward: Reward) -> None:
    async def ask(client: Any) -> int:
        with pytest.raises(ConnectionClosedError) as caught:
            await client.send("x" * (5 << 20))
            await client.recv()
        assert caught.value.rcvd is not None
        return int(caught.value.rcvd.code)

    assert asyncio.run(raw(reward, ask)) == 1009


def test_a_client_that_goes_away_leaves_the_server_well(reward: Reward) -> None:
    async def ask(client: Any) -> None:
        for number in range(20):
            turns = [{"role": "assistant", "content": "hang"}]
            await client.send(json.dumps({"turns": turns, "metadata": None, "id": number}))
        client.transport.abort()

    asyncio.run(raw(reward, ask))
    assert over_socket(reward.url, lambda client: client.score(request("four"))).reward == 4.0
