"""The content of /metrics. It takes milliseconds to generate and may need no key, so it is cached for a second."""

import threading
from time import monotonic

from prometheus_client import generate_latest
from prometheus_client.registry import Collector

KEPT_S = 1.0


class Exposition:
    """Caches the exposition. Thread-safe."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = threading.Lock()
        self._text = b""
        self._made_at = float("-inf")

    def text(self) -> bytes:
        """The metrics in Prometheus' text format, at most a second old."""
        with self._lock:
            if monotonic() - self._made_at >= KEPT_S:
                self._text, self._made_at = generate_latest(self._collector), monotonic()
            return self._text
