"""Bytes received by the uploads of each project that are not accepted yet, in this process."""

import threading
from collections import Counter


class UploadBytes:
    """Counts the bytes of each project. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[str] = Counter()

    def add(self, project: str, size: int) -> int:
        """Adds `size` bytes, or subtracts them if it is negative. Returns the total of the project."""
        with self._lock:
            self._bytes[project] += size
            total = self._bytes[project]
            if total <= 0:
                del self._bytes[project]
            return total
