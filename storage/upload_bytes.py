"""How many bytes the uploads of each project have brought that are not accepted yet. Of this process alone."""

import threading
from collections import Counter


class Underway:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[str] = Counter()

    def add(self, project: str, size: int) -> int:
        """Counts so many bytes more, or fewer. Returns how many the project has now."""
        with self._lock:
            self._bytes[project] += size
            total = self._bytes[project]
            if total <= 0:
                del self._bytes[project]
            return total
