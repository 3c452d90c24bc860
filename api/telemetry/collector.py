"""Metrics that are computed from Redis on each scrape. docs/observability.md explains each."""

from collections.abc import Iterator
from contextlib import suppress

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from runtime.metrics import REST
from storage.processes import ProcessRecord
from storage.queue.queue_depth import Depth
from storage.store import Store

_ROLES = ("api", "worker", "asking-worker")
_PROJECTS = 100


class Stored(Collector):
    """Metrics of the queue and the processes of the whole service. Each API process reports the same values."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        """Returns nothing, so that registering reads nothing from Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Returns all metrics, or only that Redis is down."""
        yield from _spool(self._store)
        try:
            depth, processes = self._store.queue.depth(), self._store.processes.there()
        except RedisError:
            yield GaugeMetricFamily("gradebox_redis_up", "Whether Redis answers.", 0)
            return
        yield GaugeMetricFamily("gradebox_redis_up", "Whether Redis answers.", 1)
        yield GaugeMetricFamily("gradebox_redis_used_bytes", "Memory that Redis uses.", depth.redis_bytes)
        yield from _queue(depth)
        yield _waiting(depth)
        yield _processes(processes)


def _spool(store: Store) -> Iterator[Metric]:
    with suppress(OSError):  # the file system is unavailable, which `/readyz` reports
        if (free := store.spool.files.free_bytes()) is not None:
            yield GaugeMetricFamily("gradebox_spool_free_bytes", "Free space of the spool's disk.", free)


def _queue(depth: Depth) -> Iterator[Metric]:
    still_open = GaugeMetricFamily("gradebox_batches_open", "Unfinished batches.", labels=["state"])
    still_open.add_metric(["queued"], depth.queued)
    still_open.add_metric(["running"], depth.running)
    yield still_open
    yield GaugeMetricFamily(
        "gradebox_batch_oldest_waiting_seconds", "Waiting time of the oldest queued batch.", depth.oldest_s
    )
    yield GaugeMetricFamily("gradebox_chunks_waiting", "Chunks that wait for a worker.", depth.chunks_waiting)
    yield GaugeMetricFamily("gradebox_chunks_running", "Chunks leased by workers.", depth.chunks_lent)


def _waiting(depth: Depth) -> Metric:
    waiting = GaugeMetricFamily(
        "gradebox_completions_waiting", "Completions without an outcome, for each grader.", labels=["project"]
    )
    by_size = sorted(depth.completions.items(), key=lambda found: -found[1])
    for project, count in by_size[:_PROJECTS]:
        waiting.add_metric([project], count)
    waiting.add_metric([REST], sum(count for _, count in by_size[_PROJECTS:]))
    return waiting


def _processes(processes: list[ProcessRecord]) -> Metric:
    found = GaugeMetricFamily("gradebox_processes", "Processes that reported recently.", labels=["role"])
    for role in _ROLES:
        found.add_metric([role], sum(process.role == role for process in processes))
    return found
