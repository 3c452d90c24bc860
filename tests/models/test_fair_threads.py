"""Tests of threads that projects share."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from time import monotonic, sleep

import pytest

from models.fair_threads import FairThreads


@pytest.fixture
def threads() -> Iterator[FairThreads[str]]:
    threads: FairThreads[str] = FairThreads("test", 3)
    yield threads
    threads.close()


def test_a_project_that_waits_for_long_leaves_others_their_threads(threads: FairThreads[str]) -> None:
    over = threading.Event()
    slow = [threads.submit("slow", lambda: str(over.wait(20))) for _ in range(30)]
    assert threads.submit("other", lambda: "at once").result(5) == "at once"
    assert not any(each.done() for each in slow)
    over.set()
    assert [each.result(5) for each in slow] == ["True"] * 30


def test_projects_take_turns() -> None:
    threads: FairThreads[str] = FairThreads("test", 1)
    begin, order = threading.Event(), []

    def run(name: str) -> str:
        begin.wait(5)
        order.append(name)
        return name

    calls = [threads.submit(name, lambda name=name: run(name)) for name in ("a", "a", "a", "a", "b", "c")]  # type: ignore[misc]
    begin.set()
    assert [each.result(5) for each in calls] == ["a", "a", "a", "a", "b", "c"]
    assert sorted(order[:4]) == ["a", "a", "b", "c"]
    threads.close()


def test_a_failure_is_that_of_its_own_call(threads: FairThreads[str]) -> None:
    def fail() -> str:
        raise SystemExit("no")

    failed, well = threads.submit("a", fail), threads.submit("a", lambda: "well")
    assert isinstance(failed.exception(5), SystemExit)
    assert well.result(5) == "well"


def test_what_waits_is_cancelled_when_it_is_closed() -> None:
    threads: FairThreads[str] = FairThreads("test", 1)
    began, over = threading.Event(), threading.Event()

    def run() -> str:
        began.set()
        over.wait(5)
        return "ended"

    first, second = threads.submit("a", run), threads.submit("a", run)
    assert began.wait(5)
    threads.close()
    with pytest.raises(CancelledError):
        second.result(5)
    over.set()
    assert first.result(5) == "ended"


def test_what_is_cancelled_is_passed_over(threads: FairThreads[str]) -> None:
    over = threading.Event()
    _slow = [threads.submit("a", lambda: str(over.wait(20))) for _ in range(2)]
    cancelled, last = threads.submit("a", lambda: "never"), threads.submit("a", lambda: "last")
    assert cancelled.cancel()
    over.set()
    assert last.result(5) == "last"
    began = monotonic()
    while threads._shares.held and monotonic() - began < 5:
        sleep(0.01)
    assert threads._shares.held == 0
