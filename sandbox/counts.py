"""What one process has done since it last told anybody, by name. Whoever keeps such counts adds them up."""

import threading
from collections.abc import Mapping

SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
"""The upper ends of the buckets that durations are counted in."""
ENDS = ("unused", "refused", "closed", "abandoned", "tainted", "memory", "timeout", "crash")
"""Why a sandbox may end."""


class Counts:
    """Thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, name: str, by: float = 1) -> None:
        """Counts something that happened, `by` times or units."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + by

    def observe(self, name: str, seconds: float) -> None:
        """Counts a duration: `name:sum`, and `name:` with the bucket that it falls into."""
        bucket = next((end for end in SECONDS if seconds <= end), None)
        self.add(f"{name}:sum", max(seconds, 0.0))
        self.add(f"{name}:{'more' if bucket is None else f'{bucket:g}'}")

    def take(self) -> dict[str, float]:
        """All counts, which begin anew."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return taken

    def put_back(self, counts: Mapping[str, float]) -> None:
        """Adds what was taken and could not be told."""
        for name, by in counts.items():
            self.add(name, by)
