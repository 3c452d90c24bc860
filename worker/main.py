"""One worker process, which runs until SIGTERM."""

import os
from contextlib import suppress
from functools import partial

import structlog
from redis.exceptions import RedisError

from models.scoring.validation_asks import asker_of
from models.settings import ModelSettings
from runtime import tracing
from runtime.metrics import Metrics, serve
from runtime.metrics_files import MetricsFile
from runtime.periodic_thread import PeriodicThread
from runtime.starting import allow_files, start, wait_for
from sandbox.pool.counts import Counts
from sandbox.pool.pool import Pool, open_pool
from storage.batch_plan import Lane
from storage.connection import is_away
from storage.janitor import Janitor
from storage.processes import ROLES, Presence
from storage.settings import StorageSettings
from storage.store import Store, open_store
from worker.context import WorkerContext, use
from worker.dispatch import Dispatch
from worker.environments.builder import EnvironmentBuilder
from worker.environments.settings import EnvironmentSettings
from worker.heartbeat import Heartbeat
from worker.process import WorkerProcess
from worker.scoring_threads import ScoringThread, asking_threads, unserved_threads
from worker.settings import WorkerSettings

_JANITOR_S = 5.0
_ASKING_NICE = 5  # added in the lane `asking`, whose graders wait longer for models than for a processor

_log = structlog.get_logger("worker")


def main() -> int:
    """Starts sandboxes and scores batches. Returns the exit code."""
    return start("worker", _run)


def _run() -> None:
    settings, own = StorageSettings(), WorkerSettings()
    allow_files()
    os.nice(own.nice + (_ASKING_NICE if own.queue == "asking" else 0))  # sandboxes inherit it
    metrics = Metrics("worker")
    if own.metrics_port:
        serve(metrics.registry, own.metrics_host, own.metrics_port)
    with open_pool(counts=Counts("worker")) as pool:
        _work(settings, own, wait_for(partial(open_store, settings), is_away), pool, metrics)


def _work(settings: StorageSettings, own: WorkerSettings, store: Store, pool: Pool, metrics: Metrics) -> None:
    metrics.registry.register(pool.counts.registry)
    pool.environments.fetch_from(store.spool.open_archive, store.archives.note_damage)
    lane: Lane = "asking" if own.queue == "asking" else ""
    dispatch = Dispatch(store, lane)
    heartbeat = Heartbeat(store, dispatch, metrics)
    context = WorkerContext(store, pool, dispatch, heartbeat, metrics, stop_s=own.stop_s)
    use(context)
    threads: list[PeriodicThread | ScoringThread] = [
        EnvironmentBuilder(context, EnvironmentSettings()),
        *unserved_threads(context, own.asking_chunks),
        *_asking_threads(context, own.asking_chunks),
        PeriodicThread("janitor", Janitor(store, settings.retention_s).look, _JANITOR_S),
        heartbeat,
        Presence(store.processes, ROLES[lane], context.trouble, own.health_file),
    ]
    if own.metrics_file is not None:
        threads.append(MetricsFile(metrics.registry, own.metrics_file))
    for thread in threads:
        thread.start()
    _log.info("waiting for batches")
    try:
        WorkerProcess(context, settings.redis_url).run()
    finally:
        context.stopping.set()
        for thread in threads:
            thread.end()
        with suppress(RedisError):  # Redis may be stopping too; a heartbeat finds the work
            dispatch.call()  # another worker, for the units that were given back and the calls that were answered
        if context.asker is not None:
            context.asker.close()
        tracing.stop()


def _asking_threads(context: WorkerContext, asking_chunks: int) -> list[ScoringThread]:
    """The threads that score in a worker in the lane `asking`. Other workers have none, and answer no asks."""
    if context.lane != "asking":
        return []
    context.asker = asker_of(context.store, ModelSettings(), context.pool, waits_for_store=True)
    context.metrics.registry.register(context.asker.counts.registry)
    return asking_threads(context, asking_chunks)
