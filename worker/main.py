"""One worker process, which runs until SIGTERM."""

import os
from functools import partial

import structlog

from models.settings import ModelSettings
from models.validation_asks import asker_of
from runtime import tracing
from runtime.metrics import Metrics, serve
from runtime.metrics_files import MetricsFile
from runtime.starting import allow_files, start, wait_for
from sandbox.counts import Counts
from sandbox.pool import Pool, open_pool
from storage.batch_plan import Lane
from storage.janitor import Janitor
from storage.processes import ROLES, Presence
from storage.settings import StorageSettings
from storage.store import Store, open_store
from worker.asking_threads import AskingCalls, AskingThread
from worker.context import WorkerContext, use
from worker.dispatch import Dispatch
from worker.environments.builder import EnvironmentBuilder
from worker.environments.settings import EnvironmentSettings
from worker.heartbeat import Heartbeat
from worker.janitor import JanitorThread
from worker.process import WorkerProcess
from worker.settings import WorkerSettings
from worker.unserved_projects import UnservedProjectsLoop

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
        _work(settings, own, wait_for(partial(open_store, settings)), pool, metrics)


def _work(settings: StorageSettings, own: WorkerSettings, store: Store, pool: Pool, metrics: Metrics) -> None:
    metrics.registry.register(pool.counts.registry)
    pool.environments.fetch_from(store.spool.open_archive)
    lane: Lane = "asking" if own.queue == "asking" else ""
    dispatch = Dispatch(store, lane)
    heartbeat = Heartbeat(store, dispatch, metrics)
    context = WorkerContext(store, pool, dispatch, heartbeat, metrics, stop_s=own.stop_s)
    use(context)
    presence = Presence(store.processes, ROLES[lane], lambda: pool.trouble() or heartbeat.trouble(), own.health_file)
    others = _asking_threads(context, own) if lane == "asking" else []
    metrics_file = None if own.metrics_file is None else MetricsFile(metrics.registry, own.metrics_file)
    unserved_loops = _unserved_loops(context, own)
    builder = EnvironmentBuilder(context, EnvironmentSettings())
    builder.start()
    for unserved_loop in unserved_loops:
        unserved_loop.start()
    for thread in others:
        thread.start()
    heartbeat.start()
    presence.start()
    if metrics_file is not None:
        metrics_file.start()
    janitor = JanitorThread(Janitor(store, settings.retention_s))
    janitor.start()
    _log.info("waiting for batches")
    try:
        WorkerProcess(context, settings.redis_url).run()
    finally:
        context.stopping.set()
        builder.end()
        for unserved_loop in unserved_loops:
            unserved_loop.end()
        for thread in others:
            thread.end()
        if context.asker is not None:
            context.asker.close()
        janitor.end()
        heartbeat.end()
        presence.end()
        if metrics_file is not None:
            metrics_file.end()
        tracing.stop()


def _unserved_loops(context: WorkerContext, own: WorkerSettings) -> list[UnservedProjectsLoop]:
    """The loops for unserved projects of the worker: one, or in the lane `asking` as many as chunks may be in flight.

    A chunk that asks is not interrupted, and a slow model delays its end. With a single one, one project with a
    slow chunk could block all other waiting projects.
    """
    return [UnservedProjectsLoop(context) for _ in range(own.asking_chunks if context.lane == "asking" else 1)]


def _asking_threads(context: WorkerContext, own: WorkerSettings) -> list[AskingThread | AskingCalls]:
    """The threads that keep further chunks in flight while the chunk of the main loop waits for models."""
    context.asker = asker_of(context.store, ModelSettings(), context.pool)
    context.metrics.registry.register(context.asker.counts.registry)
    return [AskingCalls(context), *(AskingThread(context, number) for number in range(2, own.asking_chunks + 1))]
