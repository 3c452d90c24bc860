"""Prometheus metrics of a process's asks of models and endpoints."""

from prometheus_client import CollectorRegistry, Counter

from models.replies.answer_json import Answer
from runtime.metrics import FirstLabels


class AskCounts:
    """Counts of one process, to be included in its metrics by `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._labels = FirstLabels()
        self._asks = Counter(
            "gradebox_asks",
            "Asks of models and endpoints, by result: replied, kept, or the kind of error.",
            ["project", "asked", "result"],
            registry=self.registry,
        )
        self._seconds = Counter(
            "gradebox_ask_server_seconds",
            "Time spent waiting for servers, including all tries and the pauses between them.",
            ["project", "asked"],
            registry=self.registry,
        )

    def add(self, project: str, asked: str, answer: Answer) -> None:
        """Count an answered ask."""
        result = answer.error or ("kept" if answer.spent.kept else "replied")
        self._asks.labels(*self._labels.of(project, asked), result).inc()

    def waited(self, project: str, asked: str, seconds: float) -> None:
        """Add the time spent waiting for a server."""
        self._seconds.labels(*self._labels.of(project, asked)).inc(seconds)
