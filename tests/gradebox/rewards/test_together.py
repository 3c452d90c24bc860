import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gradebox.outcome import Outcome
from gradebox.rewards.together import AsyncTogether, Together


def outcomes(threads: list[dict[str, Any]]) -> list[Outcome]:
    return [Outcome(index, "g@1", float(thread["n"]), 0.0) for index, thread in enumerate(threads)]


def in_threads(call: Callable[[int], float | None], number: int) -> list[float | None]:
    with ThreadPoolExecutor(number) as executor:
        return list(executor.map(call, range(number)))


def test_what_arrives_while_one_request_is_under_way_goes_with_the_next() -> None:
    sizes: list[int] = []

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        time.sleep(0.1)
        return outcomes(threads)

    together = Together(send)
    assert in_threads(lambda n: together.score({"n": n}).score, 32) == [float(n) for n in range(32)]
    assert sum(sizes) == 32 and len(sizes) < 8


def test_an_error_reaches_every_thread_of_its_request_and_no_later_one() -> None:
    fails = threading.Event()
    fails.set()

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        time.sleep(0.05)
        if fails.is_set():
            raise ConnectionError("away")
        return outcomes(threads)

    together = Together(send)

    def call(n: int) -> float | None:
        with pytest.raises(ConnectionError):
            together.score({"n": n})
        return None

    assert in_threads(call, 8) == [None] * 8
    fails.clear()
    assert together.score({"n": 3}).score == 3.0


def test_awaited_calls_go_together() -> None:
    sizes: list[int] = []

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sizes.append(len(threads))
        await asyncio.sleep(0.01)
        if any(thread["n"] < 0 for thread in threads):
            raise ConnectionError("away")
        return outcomes(threads)

    together = AsyncTogether(send)

    async def ask() -> list[Outcome]:
        found = await asyncio.gather(*(together.score({"n": n}) for n in range(500)))
        with pytest.raises(ConnectionError):
            await together.score({"n": -1})
        return found

    for _ in range(2):  # each run has another event loop
        assert [outcome.score for outcome in asyncio.run(ask())] == list(range(500))
    assert len(sizes) == 4


def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        await asyncio.sleep(0.05)
        return outcomes(threads)

    together = AsyncTogether(send)

    async def ask() -> float | None:
        first, second = (asyncio.ensure_future(together.score({"n": n})) for n in (1, 2))
        await asyncio.sleep(0.01)
        first.cancel()
        return (await second).score

    assert asyncio.run(ask()) == 2.0
