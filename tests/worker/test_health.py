"""Tests of the health check of a worker, and that it changes nothing."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import rq.worker.worker_classes
from redis import Redis
from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker_registration import clean_worker_registry

from storage.processes import ProcessRecord
from storage.settings import StorageSettings
from storage.store import Store
from tests.worker.conftest import ROOT, wait_until
from tests.worker.conftest import Worker as Started
from worker import process
from worker.dispatch import QUEUES

HERE = f"{socket.gethostname()}:1"


def asked(settings: StorageSettings) -> tuple[int, str]:
    """The exit code of the health check, and its error output."""
    environment = {"GRADEBOX_REDIS_URL": settings.redis_url, "PATH": ""}
    command = [sys.executable, "-m", "worker.health"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_worker_that_tells_of_itself_is_well(store: Store, storage_settings: StorageSettings) -> None:
    store.processes.report(ProcessRecord("worker", HERE))
    assert asked(storage_settings) == (0, "")


def test_it_says_what_is_wrong(store: Store, redis: Redis, storage_settings: StorageSettings) -> None:
    code, said = asked(storage_settings)
    assert (code, "no worker of host" in said) == (1, True)
    store.processes.report(ProcessRecord("worker", HERE, trouble="no sandbox can be started: no memory"))
    store.processes.report(ProcessRecord("worker", "elsewhere:1"))
    store.processes.report(ProcessRecord("api", f"{socket.gethostname()}:2"))
    before = _all(redis)
    code, said = asked(storage_settings)
    assert (code, said) == (1, f"worker {HERE}: no sandbox can be started: no memory\n")
    assert _all(redis) == before


def _all(redis: Redis) -> list[object]:
    return [(key, redis.dump(key)) for key in sorted(redis.scan_iter())]


def test_a_redis_that_is_away_is_named() -> None:
    settings = StorageSettings(redis_url="unix:///nowhere.sock")
    code, said = asked(settings)
    assert (code, "Redis does not answer" in said) == (1, True)


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_real_worker_is_well_and_gone_when_it_has_ended(
    storage_settings: StorageSettings, start: Callable[[], Started]
) -> None:
    worker = start()
    wait_until(lambda: asked(storage_settings)[0] == 0, 10)
    worker.terminate()
    assert worker.wait(15) == 0
    assert asked(storage_settings)[0] == 1


def test_rq_knows_a_worker_whose_job_outlives_its_record(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RQ's record of a worker with a job without a time limit lasts seven minutes: two seconds here."""
    monkeypatch.setattr(rq.worker.worker_classes, "DEFAULT_WORKER_TTL", 2)
    monkeypatch.setattr(process, "_FIRST_S", 0.2)
    monkeypatch.setattr(process, "_RENEW_S", 0.5)
    queue = Queue(QUEUES[""], connection=redis, serializer=JSONSerializer)
    queue.enqueue_job(queue.create_job("tests.worker.test_health.long_job", timeout=-1, result_ttl=0))
    worker = process.LeaseWorker([QUEUES[""]], connection=redis, serializer=JSONSerializer)
    known: list[int] = []
    counts.append(lambda: known.append(Worker.count(queue=queue)))
    counts.append(lambda: clean_worker_registry(queue))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        worker.work(burst=True, logging_level="ERROR")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert known == [1, 1, 1, 1]
    assert not redis.keys("rq:job:*") and not redis.keys("rq:execution*")


counts: list[Callable[[], object]] = []


def long_job() -> None:
    """A job of four seconds, during which another worker's cleanup runs."""
    for _ in range(4):
        time.sleep(1.0)
        for look in counts:
            look()
    counts.clear()


def test_a_failed_renewal_ends_nothing(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_FIRST_S", 0.01)
    worker = process.LeaseWorker([QUEUES[""]], connection=redis, serializer=JSONSerializer)
    away = Redis.from_url("unix:///nowhere.sock")
    registration = process.Registration(worker, Job.create("builtins.int", connection=redis))
    monkeypatch.setattr(worker, "maintain_heartbeats", lambda job: away.ping())
    registration.start()
    time.sleep(0.1)
    assert registration.is_alive()
    registration.end()
