import asyncio
import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
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


class Sent:
    """Outcomes of threads, soon; remembers how many threads came together. `made` may raise."""

    def __init__(self, seconds: float = 0.0, made: Callable[[list[dict[str, Any]]], list[Outcome]] = outcomes) -> None:
        self.sizes: list[int] = []
        self.seconds, self._made = seconds, made

    def __call__(self, threads: list[dict[str, Any]]) -> list[Outcome]:
        self.sizes.append(len(threads))
        time.sleep(self.seconds)
        return self._made(threads)

    async def awaited(self, threads: list[dict[str, Any]]) -> list[Outcome]:
        self.sizes.append(len(threads))
        await asyncio.sleep(self.seconds)
        return self._made(threads)


def refusing(error: Exception, threads: list[dict[str, Any]]) -> list[Outcome]:
    """The outcomes; the error if there is a thread below 0."""
    if any(float(each["completion"]) < 0 for each in threads):
        raise error
    return outcomes(threads)


async def asked(send: Callable[..., Any], *threads: dict[str, Any]) -> list[Outcome | BaseException]:
    """What each of these calls comes to, all made at once."""
    collected = AsyncCollectedCalls(send)
    return await asyncio.gather(*map(collected.score, threads), return_exceptions=True)


def in_threads(call: Callable[[int], float | None], number: int) -> list[float | None]:
    with ThreadPoolExecutor(number) as executor:
        return list(executor.map(call, range(number)))


def in_background(call: Callable[[], Outcome]) -> Future[float | None]:
    """Calls in a thread that does not keep the process alive if it hangs."""
    found: Future[float | None] = Future()

    def run() -> None:
        try:
            found.set_result(call().score)
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def test_what_arrives_while_one_request_is_under_way_goes_with_the_next() -> None:
    send = Sent(0.1)
    collected = CollectedCalls(send)
    assert in_threads(lambda n: collected.score(thread(n)).score, 32) == [float(n) for n in range(32)]
    assert sum(send.sizes) == 32 and len(send.sizes) < 8


def test_an_error_reaches_every_thread_of_its_request_and_no_later_one() -> None:
    collected = CollectedCalls(Sent(0.05, partial(refusing, ConnectionError("away"))))

    def call(n: int) -> float | None:
        with pytest.raises(ConnectionError):
            collected.score(thread(-1 - n))
        return None

    assert in_threads(call, 8) == [None] * 8
    assert collected.score(thread(3)).score == 3.0


def test_awaited_calls_go_together() -> None:
    send = Sent(0.01, partial(refusing, ConnectionError("away")))
    collected = AsyncCollectedCalls(send.awaited)

    async def ask() -> list[Outcome]:
        found = await asyncio.gather(*(collected.score(thread(n)) for n in range(500)))
        with pytest.raises(ConnectionError):
            await collected.score(thread(-1))
        return found

    for _ in range(2):  # each run has another event loop
        assert [outcome.score for outcome in asyncio.run(ask())] == list(range(500))
    assert len(send.sizes) == 4


def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    collected = AsyncCollectedCalls(Sent(0.05).awaited)

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


def test_a_thread_that_is_refused_takes_no_score_of_others(refusal: Exception) -> None:
    collected = CollectedCalls(Sent(0.05, partial(refusing, refusal)))

    def call(n: int) -> float | None:
        try:
            return collected.score(thread(-n if n in (2, 5) else n)).score
        except type(refusal) as error:
            assert error is refusal
            return None

    assert in_threads(call, 8) == [0.0, 1.0, None, 3.0, 4.0, None, 6.0, 7.0]


def test_an_awaited_thread_that_is_refused_takes_no_score_of_others(refusal: Exception) -> None:
    send = Sent(made=partial(refusing, refusal))
    found = asyncio.run(asked(send.awaited, *(thread(-n if n == 5 else n) for n in range(8))))
    assert [each.score if isinstance(each, Outcome) else each for each in found] == [0, 1, 2, 3, 4, refusal, 6, 7]
    assert send.sizes == [8, 4, 4, 2, 1, 1, 2]


@pytest.mark.parametrize("status", [401, 429, 503])
def test_an_error_that_concerns_all_is_not_tried_again(status: int) -> None:
    send = Sent(made=partial(refusing, problem(status)))
    assert [type(each) for each in asyncio.run(asked(send.awaited, *map(thread, range(-4, 0))))] == [ApiError] * 4
    assert send.sizes == [4]


def test_what_is_no_thread_is_refused_before_it_joins_others() -> None:
    send, odd = Sent(), {"completion": [{"role": "human", "content": "4"}]}
    first, second, third = asyncio.run(asked(send.awaited, thread(1), odd, thread(3)))
    assert isinstance(first, Outcome) and isinstance(third, Outcome) and send.sizes == [2]
    assert str(second) == "\"completion\"[0]: the role 'human' is unknown: write 'user'"
    with pytest.raises(ValueError, match="the role 'human' is unknown"):
        CollectedCalls(outcomes).score(odd)


@pytest.mark.parametrize("request_number", [0, 1], ids=["while it waits to be sent", "while it is sent"])
def test_ctrl_c_takes_nothing_from_the_other_callers(request_number: int) -> None:
    sent: list[list[str]] = []
    begun, may_end = ([threading.Event() for _ in range(3)] for _ in range(2))

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        number = len(sent)
        sent.append([each["completion"] for each in threads])
        begun[number].set()
        assert may_end[number].wait(10)
        return outcomes(threads)

    collected = CollectedCalls(send)
    others = [in_background(lambda: collected.score(thread(1)))]
    assert begun[0].wait(10)

    def interrupt() -> None:
        others.append(in_background(lambda: collected.score(thread(3))))
        time.sleep(0.05)
        if request_number == 1:
            may_end[0].set()
            begun[1].wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(0.1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        collected.score(thread(2))
    for event in may_end:
        event.set()
    assert [other.exception(10) for other in others] == [None, None]  # `result` would raise an interrupt here
    assert [other.result() for other in others] == [1.0, 3.0]
    assert in_background(lambda: collected.score(thread(4))).result(10) == 4.0
    assert sent == ([["1"], ["3"], ["4"]] if request_number == 0 else [["1"], ["2", "3"], ["4"]])


def test_ctrl_c_as_the_sender_starts_takes_nothing_from_later_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_self: threading.Thread) -> None:
        raise KeyboardInterrupt

    collected = CollectedCalls(outcomes)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading.Thread, "start", start)
        collected.score(thread(1))
    assert in_background(lambda: collected.score(thread(2))).result(10) == 2.0


def test_a_fork_sends_no_calls_of_its_parent() -> None:
    begun, may_end = threading.Event(), threading.Event()
    sent: list[str] = []

    def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        sent.extend(each["completion"] for each in threads)
        if threads == [thread(-1)]:
            begun.set()
            assert may_end.wait(10)
        return outcomes(threads)

    collected = CollectedCalls(send)
    parents = [in_background(lambda: collected.score(thread(-1)))]
    assert begun.wait(10)
    parents.append(in_background(lambda: collected.score(thread(-2))))
    time.sleep(0.05)  # it waits
    context = multiprocessing.get_context("fork")
    found: multiprocessing.SimpleQueue[Any] = context.SimpleQueue()

    def ask() -> None:
        sent.clear()
        found.put((in_threads(lambda n: collected.score(thread(n)).score, 8), sorted(sent)))

    child = context.Process(target=ask)
    child.start()
    child.join(10)
    child.kill()
    may_end.set()
    assert child.exitcode == 0 and found.get() == (list(range(8)), [str(n) for n in range(8)])
    assert [call.result(10) for call in parents] == [-1.0, -2.0]


def test_an_answer_without_all_outcomes_is_an_error_of_each_caller() -> None:
    send = Sent(0.05, lambda threads: outcomes(threads)[1:])
    collected = CollectedCalls(send)
    calls = [in_background(lambda: collected.score(thread(1))) for _ in range(3)]
    assert [type(call.exception(10)) for call in calls] == [ValueError] * 3
    awaited = asyncio.run(asyncio.wait_for(asked(send.awaited, *map(thread, range(3))), 10))
    assert [type(each) for each in awaited] == [ValueError] * 3


async def soon(collected: AsyncCollectedCalls, n: int) -> Outcome:
    return await asyncio.wait_for(collected.score(thread(n)), 10)


def test_an_event_loop_waits_for_no_request_of_another() -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        if threads == [thread(1)]:
            begun.set()
            assert await asyncio.to_thread(may_end.wait, 5)
        return outcomes(threads)

    collected = AsyncCollectedCalls(send)
    first = in_background(lambda: asyncio.run(soon(collected, 1)))
    assert begun.wait(10)
    assert in_background(lambda: asyncio.run(soon(collected, 2))).result(20) == 2.0
    may_end.set()
    assert first.result(20) == 1.0


def test_an_event_loop_that_stops_holds_up_no_other() -> None:
    may_end = threading.Event()

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        while threads == [thread(1)] and not may_end.is_set():
            await asyncio.sleep(0.001)
        return outcomes(threads)

    collected = AsyncCollectedCalls(send)
    stopped, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    with pytest.raises(TimeoutError):
        stopped.run_until_complete(asyncio.wait_for(collected.score(thread(1)), 0.01))
    assert other.run_until_complete(soon(collected, 2)).score == 2.0
    may_end.set()
    assert stopped.run_until_complete(soon(collected, 3)).score == 3.0
    stopped.close()
    other.close()


@pytest.mark.parametrize("seconds", [0, 0.01], ids=["before it starts", "while it sends"])
def test_if_the_sender_is_cancelled_its_calls_are_sent_again(seconds: float) -> None:
    async def ask() -> list[Outcome]:
        collected = AsyncCollectedCalls(Sent(0.02).awaited)
        callers = [asyncio.create_task(collected.score(thread(n))) for n in range(3)]
        me = asyncio.current_task()
        await asyncio.sleep(seconds)
        for task in asyncio.all_tasks() - {me, *callers}:
            task.cancel()
        return await asyncio.wait_for(asyncio.gather(*callers), 10)

    assert [outcome.score for outcome in asyncio.run(ask())] == [0, 1, 2]


def test_after_ctrl_c_an_event_loop_can_go_on() -> None:
    interrupts = [KeyboardInterrupt()]

    async def send(threads: list[dict[str, Any]]) -> list[Outcome]:
        await asyncio.sleep(0)
        if interrupts:
            raise interrupts.pop()
        return outcomes(threads)

    loop = asyncio.new_event_loop()
    caller = loop.create_task(soon(AsyncCollectedCalls(send), 1))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(caller)
    assert loop.run_until_complete(caller).score == 1.0
    loop.close()


def test_an_event_loop_that_ended_is_not_kept() -> None:
    collected = AsyncCollectedCalls(Sent().awaited)
    asyncio.run(soon(collected, 1))
    gc.collect()
    assert not collected._of_loops
