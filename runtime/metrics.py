"""Prometheus metrics of one process of the service. docs/observability.md explains each metric."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)

from gradebox.schemas import WarningKind
from runtime import thread_failures
from runtime.errors import CannotStart

SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
"""The upper bounds of the buckets of durations."""
REST = "(rest)"  # no project or grader has this key
_MOST = 200
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Metrics:
    """The metrics of a process. Its role is `api` or `worker`; each role uses the metrics that apply to it."""

    def __init__(self, role: str) -> None:
        # Omits the unused sample with the creation time of each series. The function has no type annotations.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.accepted = Counter("gradebox_batches_accepted", "Batches accepted.", registry=registry)
        self.ended = Counter("gradebox_batches_ended", "Batches finished or cancelled.", ["state"], registry=registry)
        self.given_back = Counter(
            "gradebox_chunks_given_back", "Chunks returned to the queue unscored.", registry=registry
        )
        self.warned = Counter(
            "gradebox_rewards_warned",
            "Dead-reward warnings about graders of finished batches.",
            ["kind"],
            registry=registry,
        )
        for state in ("finished", "cancelled"):
            self.ended.labels(state)
        for kind in get_args(WarningKind):
            self.warned.labels(kind)
        self.batch_wait = _seconds(
            "gradebox_batch_wait_seconds",
            "Time from accepting a batch to taking its first chunk, of finished batches.",
            registry,
        )
        self.batch_run = _seconds(
            "gradebox_batch_run_seconds",
            "Time from the first chunk of a batch to its last, of finished batches.",
            registry,
        )
        self.chunk = _seconds("gradebox_chunk_seconds", "Time to score a chunk.", registry)
        self.completions = Completions(registry)
        ProcessCollector(registry=registry)
        ended = Gauge("gradebox_threads_ended", "Threads of this process that ended with an error.", registry=registry)
        ended.set_function(thread_failures.ended)
        resident = Gauge(
            "gradebox_process_resident_bytes",
            "Resident memory of a process, without its sandboxes.",
            ["role", "process"],
            registry=registry,
        )
        resident.labels(role, f"{socket.gethostname()}:{os.getpid()}").set_function(_resident_bytes)


class FirstLabels:
    """The labels of the first 200 graders or servers of all projects. All further ones are counted together."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def of(self, project: str, name: str) -> tuple[str, str]:
        """The labels to count a grader or server of a project by: its own, or `REST` twice."""
        if len(self._known) < _MOST:
            self._known.add((project, name))
        return (project, name) if (project, name) in self._known else (REST, REST)


class Completions:
    """Outcomes by grader."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels = FirstLabels()
        self._outcomes = Counter(
            "gradebox_completions",
            "Outcomes by grader: scored, not_applicable, or the kind of error.",
            ["project", "grader", "outcome"],
            registry=registry,
        )
        self._seconds = Counter(
            "gradebox_completion_run_seconds",
            "Time inside grade(), without waiting.",
            ["project", "grader"],
            registry=registry,
        )

    def add(
        self, project: str, grader: str, scored: int, not_applicable: int, errors: Mapping[str, int], run_ms: float
    ) -> None:
        """Counts outcomes of one grader: those with a score, those that the grader does not apply to, and errors by
        kind.
        """
        labels = self._labels.of(project, grader)
        for kind, count in {"scored": scored, "not_applicable": not_applicable, **errors}.items():
            if count:
                self._outcomes.labels(*labels, kind).inc(count)
        self._seconds.labels(*labels).inc(run_ms / 1000)


class CannotListen(CannotStart):
    """The metrics cannot be served at the configured address."""

    what = "the metrics of this worker cannot be served"


def serve(registry: CollectorRegistry, host: str, port: int) -> None:
    """Serves a registry over HTTP from a new thread until the process ends. Raises CannotListen."""
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port} ({error.strerror}): give each worker of a machine a "
            "GRADEBOX_METRICS_PORT of its own, or 0 for none"
        ) from error


def _seconds(name: str, text: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, text, buckets=SECONDS, registry=registry)


def _resident_bytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
