"""What /metrics answers. It takes milliseconds to make and may need no key, so it is made once a second at most."""

import threading
from collections.abc import Callable
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest

KEPT_S = 1.0


class Exposition:
    """Thread-safe. `tell` is called before the registry is read."""

    def __init__(self, registry: CollectorRegistry, tell: Callable[[], None]) -> None:
        self._registry = registry
        self._tell = tell
        self._lock = threading.Lock()
        self._text = b""
        self._made_at = float("-inf")

    def text(self) -> bytes:
        """Prometheus' text format, at most a second old."""
        with self._lock:
            if monotonic() - self._made_at >= KEPT_S:
                self._tell()
                self._text, self._made_at = generate_latest(self._registry), monotonic()
            return self._text
