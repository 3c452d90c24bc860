import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gradebox.errors import ApiError
from gradebox.outcome import Outcome
from gradebox.rewards.collected_calls import AsyncCollectedCalls, CollectedCalls
from gradebox.schemas import Problem


def thread(n: int) -> dict[str, Any]:
    return {"completion": str(n)}


def outcomes(threads: list[dict[str, Any]]) -> list[Outcome]:
    return [Outcome(index, "g@1", float(each["completion"]), 0.0) for index, each in enumerate(threads)]


def in_threads(call: Callable[[int], float | None], number: int) -> list[float | None]:
    with ThreadPoolExecutor(number) as executor:
        return list(executor.map(call, range(number)))


def test_what_arrives_while_one_request_is_under_way_goes_with_the_next() -> None:
    sizes: list[int] = []

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        time.sleep(0.1)
        return outcomes(threads)

    collected = CollectedCalls(send)
    assert in_threads(lambda n: collected.score(thread(n)).score, 32) == [float(n) for n in range(32)]
    assert sum(sizes) == 32 and len(sizes) < 8


def test_an_error_reaches_every_thread_of_its_request_and_no_later_one() -> None:
    fails = threading.Event()
    fails.set()

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        time.sleep(0.05)
        if fails.is_set():
            raise ConnectionError("away")
        return outcomes(threads)

    collected = CollectedCalls(send)

    def call(n: int) -> float | None:
        with pytest.raises(ConnectionError):
            collected.score(thread(n))
        return None

    assert in_threads(call, 8) == [None] * 8
    fails.clear()
    assert collected.score(thread(3)).score == 3.0


def test_awaited_calls_go_together() -> None:
    sizes: list[int] = []

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        await asyncio.sleep(0.01)
        if any(float(each["completion"]) < 0 for each in threads):
            raise ConnectionError("away")
        return outcomes(threads)

    collected = AsyncCollectedCalls(send)

    async def ask() -> list[Outcome]:
        found = await asyncio.gather(*(collected.score(thread(n)) for n in range(500)))
        with pytest.raises(ConnectionError):
            await collected.score(thread(-1))
        return found

    for _ in range(2):  # each run has another event loop
        assert [outcome.score for outcome in asyncio.run(ask())] == list(range(500))
    assert len(sizes) == 4


def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        await asyncio.sleep(0.05)
        return outcomes(threads)

    collected = AsyncCollectedCalls(send)

    async def ask() -> float | None:
        first, second = (asyncio.ensure_future(collected.score(thread(n))) for n in (1, 2))
        await asyncio.sleep(0.01)
        first.cancel()
        return (await second).score

    assert asyncio.run(ask()) == 2.0


def problem(status: int) -> ApiError:
    return ApiError(Problem(type="t", title="t", status=status, detail="refused", request_id="r"))


@pytest.fixture(params=[problem(413), problem(422), ValueError("refused"), TypeError("refused")], ids=repr)
def refusal(request: pytest.FixtureRequest) -> Exception:
    error: Exception = request.param
    return error


def refusing(error: Exception, threads: list[dict[str, Any]]) -> list[Outcome]:
    """The outcomes; the error if there is a thread below 0."""
    if any(float(each["completion"]) < 0 for each in threads):
        raise error
    return outcomes(threads)


def test_a_thread_that_is_refused_takes_no_score_of_others(refusal: Exception) -> None:
    begun = threading.Event()

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        begun.wait(0.2)  # so that the others go together
        return refusing(refusal, threads)

    collected = CollectedCalls(send)

    def call(n: int) -> float | None:
        try:
            return collected.score(thread(-n if n in (2, 5) else n)).score
        except type(refusal) as error:
            assert error is refusal
            return None

    assert in_threads(call, 8) == [0.0, 1.0, None, 3.0, 4.0, None, 6.0, 7.0]


def test_an_awaited_thread_that_is_refused_takes_no_score_of_others(refusal: Exception) -> None:
    sizes: list[int] = []

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        return refusing(refusal, threads)

    async def ask() -> list[Outcome | BaseException]:
        collected = AsyncCollectedCalls(send)
        calls = [collected.score(thread(-n if n == 5 else n)) for n in range(8)]
        return await asyncio.gather(*calls, return_exceptions=True)

    found = asyncio.run(ask())
    assert [each.score if isinstance(each, Outcome) else each for each in found] == [0, 1, 2, 3, 4, refusal, 6, 7]
    assert sizes == [8, 4, 4, 2, 1, 1, 2]


@pytest.mark.parametrize("status", [401, 429, 503])
def test_an_error_that_concerns_all_is_not_tried_again(status: int) -> None:
    sizes: list[int] = []

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        raise problem(status)

    async def ask() -> list[Outcome | BaseException]:
        collected = AsyncCollectedCalls(send)
        return await asyncio.gather(*(collected.score(thread(n)) for n in range(4)), return_exceptions=True)

    assert [type(each) for each in asyncio.run(ask())] == [ApiError] * 4
    assert sizes == [4]


def test_what_is_no_thread_is_refused_before_it_joins_others() -> None:
    sizes: list[int] = []

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        return outcomes(threads)

    async def ask() -> list[Outcome | BaseException]:
        collected = AsyncCollectedCalls(send)
        odd = {"completion": [{"role": "human", "content": "4"}]}
        calls = (collected.score(each) for each in (thread(1), odd, thread(3)))
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert isinstance(first, Outcome) and isinstance(third, Outcome) and sizes == [2]
    assert str(second) == "\"completion\"[0]: the role 'human' is unknown: write 'user'"
    with pytest.raises(ValueError, match="the role 'human' is unknown"):
        CollectedCalls(outcomes).score({"completion": [{"role": "human", "content": "4"}]})
