"""The metrics of the service, as Prometheus reads them. docs/observability.md says what each is for."""

from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from gradebox.schemas import WarningKind
from runtime import threads
from sandbox.counts import ENDS, SECONDS
from storage.measures import Measures, Reading

_ENDED = ("finished", "cancelled", "failed")
_ROLES = ("api", "worker")
_REST = "(rest)"  # no key: stands for all that are not told apart
_PROJECTS = 100


def registry(measures: Measures) -> CollectorRegistry:
    """The metrics of one API process."""
    # A sample for each series that says when it began, which nobody asks for. The library has no type for this.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    found = CollectorRegistry()
    ProcessCollector(registry=found)
    ended = Gauge("gradebox_threads_ended", "Threads of this process that ended by a fault.", registry=found)
    ended.set_function(threads.ended)
    found.register(Shared(measures))
    return found


class Shared(Collector):
    """What is counted for the whole service: each API process tells the same."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def describe(self) -> list[Metric]:
        """Nothing: registering is not to ask Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it, or that Redis is away."""
        try:
            reading = self._measures.read()
        except RedisError:
            yield GaugeMetricFamily("gradebox_redis_up", "Whether Redis answers.", 0)
            return
        yield GaugeMetricFamily("gradebox_redis_up", "Whether Redis answers.", 1)
        yield GaugeMetricFamily("gradebox_redis_used_bytes", "Memory that Redis uses.", reading.redis_bytes)
        for part in (_batches, _queue, _completions, _durations, _sandboxes, _processes):
            yield from part(reading)


def _batches(reading: Reading) -> Iterator[Metric]:
    totals = reading.totals
    yield CounterMetricFamily("gradebox_batches_accepted", "Batches accepted.", value=totals.get("accepted", 0))
    ended = CounterMetricFamily("gradebox_batches_ended", "Batches that are over.", labels=["state"])
    for state in _ENDED:
        ended.add_metric([state], totals.get(f"ended:{state}", 0))
    yield ended
    warned = CounterMetricFamily(
        "gradebox_rewards_warned", "Graders of finished batches whose scores look like no reward.", labels=["kind"]
    )
    for kind in get_args(WarningKind):
        warned.add_metric([kind], totals.get(f"worker:warned:{kind}", 0))
    yield warned


def _queue(reading: Reading) -> Iterator[Metric]:
    queue = reading.queue
    still_open = GaugeMetricFamily("gradebox_batches_open", "Batches that are not over.", labels=["state"])
    still_open.add_metric(["queued"], queue.queued)
    still_open.add_metric(["running"], queue.running)
    yield still_open
    yield GaugeMetricFamily(
        "gradebox_batch_oldest_waiting_seconds", "How long the oldest queued batch has waited.", queue.oldest_s
    )
    yield GaugeMetricFamily("gradebox_chunks_waiting", "Chunks that no worker has.", queue.chunks)
    yield GaugeMetricFamily("gradebox_chunks_running", "Chunks that workers have.", reading.lent)
    yield CounterMetricFamily(
        "gradebox_chunks_given_back", "Chunks that came back unscored.", value=reading.totals.get("given_back", 0)
    )
    waiting = GaugeMetricFamily(
        "gradebox_completions_waiting", "Completions without an outcome, for each grader.", labels=["project"]
    )
    by_size = sorted(reading.waiting.items(), key=lambda found: -found[1])
    for project, count in by_size[:_PROJECTS]:
        waiting.add_metric([project], count)
    waiting.add_metric([_REST], sum(count for _, count in by_size[_PROJECTS:]))
    yield waiting


def _completions(reading: Reading) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "gradebox_completions",
        "Outcomes by grader: scored, or the kind of error.",
        labels=["project", "grader", "outcome"],
    )
    seconds = CounterMetricFamily(
        "gradebox_completion_run_seconds", "Time inside grade(), waiting not counted.", labels=["project", "grader"]
    )
    for name, counts in reading.graders.items():
        project, grader = (_REST, _REST) if name == "rest" else name.split(":")
        for field, count in counts.items():
            if field != "run_ms":
                outcomes.add_metric([project, grader, field.removeprefix("error:")], count)
        seconds.add_metric([project, grader], counts.get("run_ms", 0) / 1000)
    yield outcomes
    yield seconds


def _durations(reading: Reading) -> Iterator[Metric]:
    for name, metric, text in (
        ("batch_wait", "gradebox_batch_wait_seconds", "Of finished batches, until their first chunk was taken."),
        ("batch_run", "gradebox_batch_run_seconds", "Of finished batches, from their first chunk to their last."),
        ("chunk", "gradebox_chunk_seconds", "From taking a chunk until its outcomes count."),
    ):
        family = HistogramMetricFamily(metric, text)
        _add_histogram(family, [], reading.totals, f"worker:{name}")
        yield family
    family = HistogramMetricFamily(
        "gradebox_sandbox_wait_seconds", "Waiting for an empty sandbox to load a grader into.", labels=["role"]
    )
    for role in _ROLES:
        _add_histogram(family, [role], reading.totals, f"{role}:sandbox_wait")
    yield family


def _add_histogram(family: HistogramMetricFamily, labels: list[str], totals: dict[str, float], name: str) -> None:
    below = 0.0
    buckets = []
    for end in SECONDS:
        below += totals.get(f"{name}:{end:g}", 0)
        buckets.append((f"{end:g}", below))
    buckets.append(("+Inf", below + totals.get(f"{name}:more", 0)))
    family.add_metric(labels, buckets, totals.get(f"{name}:sum", 0))


def _sandboxes(reading: Reading) -> Iterator[Metric]:
    loads = CounterMetricFamily(
        "gradebox_pool_loads", "Graders asked of the pool: hit where one was loaded already.", labels=["role", "result"]
    )
    started = CounterMetricFamily("gradebox_sandboxes_started", "Sandboxes started.", labels=["role"])
    failed = CounterMetricFamily("gradebox_sandbox_starts_failed", "Sandboxes that did not start.", labels=["role"])
    ended = CounterMetricFamily("gradebox_sandboxes_ended", "Sandboxes ended, and why.", labels=["role", "why"])
    for role in _ROLES:
        for result in ("hit", "miss"):
            loads.add_metric([role, result], reading.totals.get(f"{role}:pool:{result}", 0))
        started.add_metric([role], reading.totals.get(f"{role}:sandbox:start", 0))
        failed.add_metric([role], reading.totals.get(f"{role}:sandbox:start-failed", 0))
        for why in ENDS:
            ended.add_metric([role, why], reading.totals.get(f"{role}:sandbox:end:{why}", 0))
    yield from (loads, started, failed, ended)


def _processes(reading: Reading) -> Iterator[Metric]:
    alive = GaugeMetricFamily("gradebox_sandboxes_alive", "Sandboxes that there are.", labels=["role"])
    processes = GaugeMetricFamily("gradebox_processes", "Processes that told of late.", labels=["role"])
    resident = GaugeMetricFamily(
        "gradebox_process_resident_bytes", "Memory of a process, its sandboxes not counted.", labels=["role", "process"]
    )
    for role in _ROLES:
        found = [process for process in reading.processes if process.role == role]
        processes.add_metric([role], len(found))
        alive.add_metric([role], sum(process.sandboxes for process in found))
        for process in found:
            resident.add_metric([role, process.name], process.resident_bytes)
    yield from (alive, processes, resident)
