import json
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue
from rq.exceptions import StopRequested
from rq.serializers import JSONSerializer

from storage.connection import connect
from storage.queue.leases import UnitPart
from storage.settings import StorageSettings
from storage.store import Store
from tests.processes import printed
from tests.storage.making import claim, full
from tests.waiting import eventually
from tests.worker.conftest import Start, over, scores, submit
from worker.dispatch import QUEUES, Dispatch
from worker.process import LeaseWorker, _raising

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.001)\n    return float(thread.completion())\n"
SLOWER = "import time\nasync def grade(thread):\n    time.sleep(0.02)\n    return 1.0\n"
STUCK = "import time\nasync def grade(thread):\n    time.sleep(60)\n    return 1.0\n"


@pytest.mark.alone  # it measures time: beside other tests a worker may end more slowly
def test_a_worker_told_to_stop_gives_back_what_is_done(store: Store, dispatch: Dispatch, start: Start) -> None:
    worker = start()
    batch = submit(store, dispatch, 1000, SLOWER)
    eventually(lambda: store.batches.get("default", batch, summary=False).underway > 0)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(3) == 0
    found = store.batches.get("default", batch)
    assert found.done == 0
    assert found.underway > 0
    again = claim(store)
    assert (again.unit, again.attempt, again.tries) == (0, 2, 1)
    assert again.part == UnitPart(1, found.underway)


def test_a_unit_that_takes_too_long_to_stop_is_given_back(store: Store, dispatch: Dispatch, start: Start) -> None:
    worker = start()
    submit(store, dispatch, 10, STUCK, timeout_s=100.0)
    eventually(lambda: bool(store.redis.exists("gradebox:leases")))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0
    again = claim(store)
    assert (again.unit, again.attempt, again.tries) == (0, 2, 1)


def test_one_completion_of_another_project_passes_a_slow_chunk(store: Store, dispatch: Dispatch, start: Start) -> None:
    start()
    store.projects.ensure("other")
    slow = submit(store, dispatch, 20, STUCK, timeout_s=100.0)
    eventually(lambda: bool(store.redis.exists("gradebox:leases")))
    began = time.monotonic()
    for lines in (1, 2):
        quick = submit(store, dispatch, lines, SLOW, project="other")
        over(store, quick, project="other")
    assert time.monotonic() - began < 30
    assert store.batches.get("default", slow).done == 0


def test_a_signal_takes_no_lock_that_the_main_thread_may_hold() -> None:
    """The signal handler runs in the main thread between any two instructions, also within `Event.wait`."""
    program = """
import os, signal, threading, types
from worker.process import WorkerProcess

context = types.SimpleNamespace(stopping=threading.Event(), stop_s=60.0)
process = WorkerProcess(context, "unix:///nowhere.sock")
held = context.stopping._cond

def work():
    with held:  # as Event.wait does
        os.kill(os.getpid(), signal.SIGTERM)
    assert context.stopping.wait(5)

process._work = work
process.run()
print("stopped")
"""
    assert printed(program) == "stopped\n"


def test_a_worker_that_has_just_worked_answers_in_the_same_job(store: Store, dispatch: Dispatch, start: Start) -> None:
    start()
    for lines in (10, 20, 30):
        assert over(store, submit(store, dispatch, lines, SLOW)).done == lines
    assert not store.redis.llen("rq:queue:gradebox")
    (job,) = store.redis.keys("rq:job:*")  # of the first call, which still runs
    eventually(lambda: not store.redis.exists(job))
    (worker,) = store.redis.smembers("rq:workers")
    assert int(store.redis.hget(worker, "successful_job_count") or 0) == 1


@pytest.mark.alone
@pytest.mark.parametrize("lines", [0, 10])
def test_a_worker_that_is_idle_or_waits_for_the_next_call_stops_at_once(
    store: Store, dispatch: Dispatch, start: Start, lines: int
) -> None:
    worker = start()
    if lines:
        over(store, submit(store, dispatch, lines, SLOW))
    time.sleep(0.2)
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert worker.wait(10) == 0
    assert time.monotonic() - began < 3


@pytest.mark.alone
def test_a_call_of_a_worker_that_stops_is_answered_by_another(store: Store, dispatch: Dispatch, start: Start) -> None:
    start()
    for number in range(3):
        other = start()
        over(store, submit(store, dispatch, 10 + 2 * number, SLOW))
        over(store, submit(store, dispatch, 11 + 2 * number, SLOW))  # now both workers wait for the next call
        other.send_signal(signal.SIGTERM)
        time.sleep(0.04 * number)
        began = time.monotonic()
        over(store, submit(store, dispatch, 100 + number, SLOW))
        assert time.monotonic() - began < 2  # does not wait for the next heartbeat
        assert other.wait(10) == 0


def test_work_whose_job_was_lost_is_found(store: Store, dispatch: Dispatch, start: Start) -> None:
    batch = submit(store, dispatch, 10, SLOW)
    store.redis.delete("rq:queue:gradebox")
    start()
    assert over(store, batch).done == 10


def test_a_lost_payload_becomes_errors_and_holds_up_nothing(store: Store, dispatch: Dispatch, start: Start) -> None:
    lost = submit(store, dispatch, 3000, SLOW)
    store.spool.remove(lost)
    good = submit(store, dispatch, 10, SLOW)
    start()
    assert over(store, lost).errors == {"infrastructure": 3000}
    assert over(store, good).scored == 10


def test_a_job_that_fails_is_logged_without_the_words_of_what_it_raised(
    store: Store, dispatch: Dispatch, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    start()
    Queue(QUEUES[""], connection=store.redis, serializer=JSONSerializer).enqueue("builtins.int", "tenants words")
    logged = ""

    def has_failed() -> bool:
        nonlocal logged
        logged += capfd.readouterr().err
        return "a job failed" in logged

    eventually(has_failed)
    (event,) = [found for found in map(json.loads, logged.splitlines()) if found["event"] == "a job failed"]
    assert event["exception"] == "ValueError"
    assert event["frames"]
    assert "tenants words" not in logged
    assert over(store, submit(store, dispatch, 10, SLOW)).state == "finished"


def test_an_idle_worker_notices_a_connection_that_is_silent(
    storage_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = connect(storage_settings.redis_url, blocking=True)
    idle = LeaseWorker(["silent"], connection=redis, serializer=JSONSerializer)
    monkeypatch.setattr(idle, "_install_signal_handlers", lambda: None)
    assert redis.connection_pool.connection_kwargs["socket_timeout"] <= 20
    redis.connection_pool.connection_kwargs["socket_timeout"] = 0.5  # Redis waits longer for a job
    redis.connection_pool.reset()
    with pytest.raises(RedisTimeoutError), _raising(idle.log):
        idle.work(logging_level="WARNING")


def test_an_idle_worker_looks_each_second_whether_redis_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = LeaseWorker(["away"], connection=connect("redis://localhost:1"), prepare_for_work=False)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            raise StopRequested

    monkeypatch.setattr("rq.worker.base.time", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(idle, "set_state", lambda _: None)
    with pytest.raises(StopRequested):
        idle.dequeue_job_and_maintain_ttl(1)
    assert max(pauses) <= 1


def test_a_redis_that_is_full_at_the_end_of_a_job_is_one_warning(
    store: Store, dispatch: Dispatch, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    start()
    over(store, submit(store, dispatch, 10, SLOW))
    logged = ""

    def is_told() -> bool:
        nonlocal logged
        logged += "".join(capfd.readouterr())
        return "Redis has reached its maxmemory, trying again" in logged

    with full(store.redis):  # the worker still lingers in its job
        eventually(is_told)
    over(store, submit(store, dispatch, 11, SLOW))
    logged += "".join(capfd.readouterr())
    assert "unhandled" not in logged
    assert "does not answer" not in logged


def test_a_spool_that_is_not_mounted_for_a_while_loses_nothing(
    store: Store, dispatch: Dispatch, storage_settings: StorageSettings, start: Start
) -> None:
    start()
    batch = submit(store, dispatch, 3000, SLOW)
    eventually(lambda: store.batches.get("default", batch, summary=False).done >= 500)
    spool = storage_settings.data_dir / "spool"
    away = spool.rename(spool.with_name("away"))
    spool.mkdir()
    time.sleep(3)
    assert list(spool.iterdir()) == []
    assert store.batches.get("default", batch, summary=False).state == "running"
    shutil.rmtree(spool)
    away.rename(spool)
    found = over(store, batch)
    assert (found.done, found.scored, found.errors) == (3000, 3000, {})
    assert scores(store, batch) == [float(number) for number in range(3000)]
