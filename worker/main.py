"""One worker process, until SIGTERM."""

import os
from functools import partial

import structlog

from runtime import tracing
from runtime.starting import start, wait_for
from sandbox.pool import Pool, open_pool
from storage.janitor import Janitor
from storage.settings import StorageSettings
from storage.store import Store, open_store
from worker.dispatch import Dispatch
from worker.express import Express
from worker.heartbeat import Heartbeat
from worker.janitor import JanitorThread
from worker.process import Process
from worker.publisher import Publisher
from worker.runtime import Runtime, use
from worker.settings import WorkerSettings

_log = structlog.get_logger("worker")


def main() -> int:
    """Opens sandboxes and works. Returns the exit code."""
    return start("worker", _run)


def _run() -> None:
    settings, own = StorageSettings(), WorkerSettings()
    os.nice(own.nice)  # sandboxes have it too
    with open_pool() as pool:
        _work(settings, own, wait_for(partial(open_store, settings)), pool)


def _work(settings: StorageSettings, own: WorkerSettings, store: Store, pool: Pool) -> None:
    dispatch = Dispatch(store)
    heartbeat = Heartbeat(store, dispatch)
    runtime = Runtime(store, pool, dispatch, heartbeat, stop_s=own.stop_s)
    use(runtime)
    publisher = Publisher("worker", store, pool, runtime.counts, heartbeat.trouble)
    express = Express(runtime)
    express.start()
    heartbeat.start()
    publisher.start()
    janitor = JanitorThread(Janitor(store, settings.retention_s))
    janitor.start()
    _log.info("waiting for batches")
    try:
        Process(runtime, settings.redis_url).run()
    finally:
        runtime.stopping.set()
        express.end()
        janitor.end()
        heartbeat.end()
        publisher.end()
        tracing.stop()
