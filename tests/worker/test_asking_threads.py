"""Tests of a worker of graders that ask, with slow models."""

import json
import signal
import time
from functools import partial

import pytest

from examples.model_server import ModelServer, Script
from gradebox.schemas import ModelDefaults
from storage.models.spending import Budget
from storage.store import Store
from tests.storage.making import lines_of
from tests.waiting import eventually
from tests.worker.conftest import Start, end_leases, over, scores, submit
from worker.dispatch import Dispatch

pytestmark = pytest.mark.sandbox
SLOW = """
from gradebox import Model

judge = Model("slow-judge")


async def grade(thread: StringThread) -> float:
    await judge.chat(thread.completion())
    return 1.0
"""


@pytest.fixture(autouse=True)
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers score graders that ask."""
    for name, value in (("QUEUE", "asking"), ("MODEL_HOSTS", "*"), ("MODEL_PRIVATE", "on")):
        monkeypatch.setenv(f"GRADEBOX_{name}", value)


def register(store: Store, server: ModelServer, keep_replies: bool = True) -> None:
    store.models.create(
        "default", "slow-judge", server.base_url, "m", "", ModelDefaults(), 30, keep_replies=keep_replies
    )


def is_running(store: Store, batch: str) -> bool:
    return store.batches.get("default", batch).state == "running"


def test_a_second_batch_begins_while_the_first_waits_for_models(store: Store, dispatch: Dispatch, start: Start) -> None:
    with ModelServer(Script(latency_s=5)) as server:
        register(store, server, keep_replies=False)
        start()
        batches = [submit(store, dispatch, 1, SLOW, asks=["model:slow-judge"])]
        eventually(lambda: len(server.bodies) == 1)
        began_after: list[float] = []
        for lines in (2, 3, 4):
            time.sleep(0.7)  # until idle threads sleep again
            began = time.monotonic()
            batch = submit(store, dispatch, lines, SLOW, asks=["model:slow-judge"])
            eventually(partial(is_running, store, batch))
            began_after.append(time.monotonic() - began)
            batches.append(batch)
        assert is_running(store, batches[0])
        assert max(began_after) < 0.5
        for lines, batch in enumerate(batches, 1):
            over(store, batch)
            assert scores(store, batch) == [1.0] * lines


UNEVEN = """
import asyncio

from gradebox import Model

judge = Model("slow-judge")


async def grade(thread: StringThread) -> float:
    number = int(thread.completion())
    await judge.chat(thread.completion())
    if number % 3 == 0:
        for again in range(7):
            await asyncio.gather(*(judge.chat(f"{number} {again} {each}") for each in range(8)))
    return float(number)
"""


def test_outcomes_that_are_there_when_a_batch_is_cancelled_stay_and_what_the_others_cost_is_told(
    store: Store, dispatch: Dispatch, start: Start
) -> None:
    with ModelServer(Script(latency_s=0.5)) as server:
        register(store, server, keep_replies=False)
        start()
        batch = submit(store, dispatch, 10, UNEVEN, asks=["model:slow-judge"])
        eventually(lambda: len(server.bodies) > 10 + 4 * 8)  # the six others are done
        assert store.batches.cancel("default", batch).done == 0
        eventually(lambda: store.batches.get("default", batch).done == 10)
    found = store.batches.get("default", batch)
    assert (found.state, found.scored, found.errors, found.underway) == ("cancelled", 6, {"infrastructure": 4}, 0)
    spent = found.summary[0].spent
    assert spent is not None and spent.output_tokens > 0
    assert len(server.bodies) - 16 <= spent.asks <= len(server.bodies)  # sixteen may have been under way
    assert scores(store, batch) == [None if number % 3 == 0 else float(number) for number in range(10)]
    errors = [error for line in lines_of(store, batch) if (error := json.loads(line).get("error"))]
    assert [(error["retryable"], "was cancelled" in error["message"]) for error in errors] == [(True, True)] * 4
    store.freezer.freeze(batch)
    assert store.batches.frozen(batch) is not None
    assert store.batches.get("default", batch) == found
    assert store.backlog.usage("default").waiting.completions == 0


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_worker_has_paid_for_is_told_when_it_was_stopped(
    store: Store, dispatch: Dispatch, start: Start, sent: signal.Signals
) -> None:
    """The second worker gets kept replies. So the outcomes alone do not tell what was paid."""
    with ModelServer(Script(latency_s=0.05)) as server:
        register(store, server)
        store.spending.set_budget("default", Budget(tokens=10**9))  # so that a place is free only after the count
        first = start()
        batch = submit(store, dispatch, 100, SLOW, asks=["model:slow-judge"])
        eventually(lambda: len(server.bodies) >= 30)
        first.send_signal(sent)
        first.wait()
        if sent == signal.SIGKILL:
            end_leases(store)
        start()
        assert over(store, batch).scored == 100
        (summary,) = store.batches.get("default", batch).summary
        assert summary.spent is not None
        paid = summary.spent.asks - summary.spent.kept
        assert len(server.bodies) - 16 <= paid <= len(server.bodies)  # sixteen may have been under way
        assert paid >= 100
        assert summary.spent.input_tokens == 10 * paid


class Uneven(ModelServer):
    """Answers each request a second later than the one before."""

    @property
    def script(self) -> Script:
        return Script(latency_s=float(len(self.bodies)))

    @script.setter
    def script(self, _: Script) -> None:
        pass


def test_a_worker_that_stops_waits_for_answers_that_are_paid(store: Store, dispatch: Dispatch, start: Start) -> None:
    with Uneven() as server:
        register(store, server)
        first = start()
        batch = submit(store, dispatch, 3, SLOW, asks=["model:slow-judge"])
        eventually(lambda: len(server.bodies) == 3)
        first.send_signal(signal.SIGTERM)
        first.wait()
        start()
        assert over(store, batch).scored == 3
        assert len(server.bodies) == 3
