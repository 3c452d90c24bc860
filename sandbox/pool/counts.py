"""Prometheus metrics of a pool of sandboxes."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from runtime.metrics import SECONDS

ENDS = ("unused", "refused", "closed", "abandoned", "tainted", "memory", "timeout", "crash")
"""The reasons for which a sandbox is ended."""


class Counts:
    """The metrics of one pool. `role` is the role of the process, whose metrics must include this registry."""

    def __init__(self, role: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        loads = Counter(
            "gradebox_pool_loads",
            "Requests for a grader to the pool; hit: it was already loaded.",
            ["role", "result"],
            registry=registry,
        )
        self.hits, self.misses = loads.labels(role, "hit"), loads.labels(role, "miss")
        wait, text = "gradebox_sandbox_wait_seconds", "Time spent waiting for an empty sandbox."
        self.wait = Histogram(wait, text, ["role"], buckets=SECONDS, registry=registry).labels(role)

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ["role"], registry=registry).labels(role)

        self.started = counter("gradebox_sandboxes_started", "Sandboxes started.")
        self.starts_failed = counter("gradebox_sandbox_starts_failed", "Sandboxes that failed to start.")
        self.ends_failed = counter(
            "gradebox_sandbox_ends_failed", "Sandboxes that could not be ended properly: parts of them may remain."
        )
        ended = Counter("gradebox_sandboxes_ended", "Sandboxes ended, by reason.", ["role", "why"], registry=registry)
        self.ended = {why: ended.labels(role, why) for why in ENDS}
        alive = Gauge("gradebox_sandboxes_alive", "Sandboxes that exist now.", ["role"], registry=registry)
        self._alive = alive.labels(role)

    def watch(self, alive: Callable[[], int]) -> None:
        """Reports the number of sandboxes by calling `alive`."""
        self._alive.set_function(alive)
