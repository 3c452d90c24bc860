"""Prometheus metrics of a process's asks of models and endpoints."""

import msgspec
from prometheus_client import CollectorRegistry, Counter

from models.replies.answer_json import Answer
from runtime.metrics import REST

_MOST = 200  # models and endpoints of all projects with their own labels


class _Error(msgspec.Struct):
    kind: str


class _ErrorBody(msgspec.Struct):
    error: _Error


class AskCounts:
    """Counts of one process, to be included in its metrics by `registry`. The first `_MOST` models and endpoints have
    their own labels; later ones are counted together.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._known: set[tuple[str, str]] = set()
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
        if answer.is_error:
            result = msgspec.json.decode(answer.body, type=_ErrorBody).error.kind
        else:
            result = "kept" if answer.spent.kept else "replied"
        self._asks.labels(*self._labels(project, asked), result).inc()

    def waited(self, project: str, asked: str, seconds: float) -> None:
        """Add the time spent waiting for a server."""
        self._seconds.labels(*self._labels(project, asked)).inc(seconds)

    def _labels(self, project: str, asked: str) -> tuple[str, str]:
        if (project, asked) not in self._known:
            if len(self._known) >= _MOST:
                return REST, REST
            self._known.add((project, asked))
        return project, asked
