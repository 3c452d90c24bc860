"""Tests of asks in one round, with and without an event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from gradebox.asks.asking import Pause
from gradebox.judges.together import together
from gradebox.score import NotApplicable

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def without_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        while True:
            assert type(coroutine.send(None)) is Pause
    except StopIteration as ended:
        return ended.value


class Steps:
    """Calls that wait some times; `log` has what each did."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.log: list[str] = []

    def of(self, name: str, waits: int, ends: Exception | None = None) -> Callable[[], Coroutine[Any, Any, str]]:
        return partial(self._call, name, waits, ends)

    async def _call(self, name: str, waits: int, ends: Exception | None) -> str:
        try:
            for step in range(waits):
                self.log.append(f"{name}{step}")
                await (Pause() if self._run is without_loop else asyncio.sleep(0))
        finally:
            self.log.append(f"{name} ends")
        if ends is not None:
            raise ends
        return name


@pytest.fixture(params=[without_loop, asyncio.run], ids=["without a loop", "in a loop"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


def test_results_come_in_the_order_of_the_calls(run: Run) -> None:
    steps = Steps(run)
    assert run(together([steps.of("a", 2), steps.of("b", 0), steps.of("c", 1)])) == ["a", "b", "c"]
    assert steps.log == ["a0", "b ends", "c0", "a1", "c ends", "a ends"]
    assert run(together([])) == []


def test_the_first_call_that_fails_is_raised_once_all_have_asked_and_the_others_end(run: Run) -> None:
    steps = Steps(run)
    failing = [steps.of("b", 1, NotApplicable("first")), steps.of("c", 1, ValueError("second"))]
    calls = [steps.of("a", 9), *failing, steps.of("d", 3)]
    with pytest.raises(NotApplicable, match="first"):
        run(together(calls))
    assert steps.log[:8] == ["a0", "b0", "c0", "d0", "a1", "b ends", "c ends", "d1"]
    assert sorted(steps.log[-2:]) == ["a ends", "d ends"]
    assert "a8" not in steps.log


def test_a_call_that_ends_earlier_fails_earlier(run: Run) -> None:
    steps = Steps(run)
    with pytest.raises(ValueError, match="sooner"):
        run(together([steps.of("a", 2, TypeError("later")), steps.of("b", 1, ValueError("sooner"))]))


def test_a_failure_can_be_caught_and_what_is_caught_goes_on(run: Run) -> None:
    steps = Steps(run)

    async def caught() -> str:
        try:
            await together([steps.of("a", 1, ValueError()), steps.of("b", 5)])
        except ValueError:
            return (await together([steps.of("c", 1), steps.of("d", 1)]))[1]
        raise AssertionError

    assert run(together([caught, steps.of("e", 4)])) == ["d", "e"]


def test_calls_that_are_given_up_end() -> None:
    steps = Steps(without_loop)
    coroutine = together([steps.of("a", 1), steps.of("b", 1)])
    coroutine.send(None)
    coroutine.close()
    assert steps.log == ["a0", "b0", "a ends", "b ends"]


def test_a_call_that_needs_a_loop_is_seen_beside_one_that_asks() -> None:
    async def waits() -> str:
        await asyncio.sleep(0)
        return ""

    coroutine = together([Steps(without_loop).of("a", 1), waits])
    assert coroutine.send(None) is None
    coroutine.close()
