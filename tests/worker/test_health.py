"""Tests of the health check of a worker, and of what RQ records of a worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import rq.worker.worker_classes
from redis import Redis
from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker_registration import clean_worker_registry

from runtime import health_file
from storage.settings import StorageSettings
from storage.store import Store, open_store
from tests.conftest import redis_server
from tests.processes import printed
from tests.waiting import eventually
from tests.worker.conftest import ROOT, workers
from worker import process
from worker.dispatch import QUEUES


def checked(file: Path | None) -> tuple[int, str]:
    """The exit code of the health check, and its error output."""
    environment = {"PATH": ""} if file is None else {"PATH": "", "GRADEBOX_HEALTH_FILE": str(file)}
    command = [sys.executable, "-m", "worker.health"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_it_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "health"
    code, said = checked(file)
    assert (code, said) == (1, f"worker: there is no {file}, which a worker writes when it has reported: see its log\n")
    health_file.write(file, "")
    assert checked(file) == (0, "")
    health_file.write(file, "no sandbox can be started: no memory")
    assert checked(file) == (1, "worker: no sandbox can be started: no memory\n")
    health_file.write(file, "")
    minute_ago = time.time() - 60
    os.utime(file, (minute_ago, minute_ago))
    assert checked(file) == (1, "worker: it has not reported to Redis for 60 s: see its log\n")
    os.utime(file, (minute_ago + 120, minute_ago + 120))
    assert checked(file) == (1, "worker: it has not reported to Redis since the clock was set back: see its log\n")
    assert checked(None) == (1, "GRADEBOX_HEALTH_FILE is not set: set it for the worker and for this check\n")


def test_it_imports_nothing_that_takes_time() -> None:
    """A container engine runs it every few seconds: with a client of Redis it took a tenth of a processor."""
    loaded = printed("import worker.health; print(*sys.modules)").split()
    assert not {"redis", "asyncio", "pydantic", "structlog", "storage"} & set(loaded)


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_real_worker_is_well_until_redis_is_away(
    storage_settings: StorageSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "health"
    monkeypatch.setenv("GRADEBOX_HEALTH_FILE", str(file))
    with redis_server(tmp_path) as url:
        settings = StorageSettings(redis_url=url, data_dir=storage_settings.data_dir)
        store = open_store(settings)
        with workers(store, settings) as start:
            start()
            eventually(file.exists, 10)
            assert checked(file) == (0, "")
            written = file.stat().st_mtime
            eventually(lambda: file.stat().st_mtime > written, 10)
            os.kill(store.redis.info("server")["process_id"], signal.SIGSTOP)
            written = file.stat().st_mtime
            time.sleep(7)
            assert file.stat().st_mtime == written


def test_rq_knows_workers_that_outlive_a_record(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
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
