"""Waits for what other threads and processes do."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], within_s: float = 60.0, every_s: float = 0.05) -> float:
    """Waits until this holds, and returns the seconds that it took. Fails if it takes longer than `within_s`."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < within_s, "it never came true"
        time.sleep(every_s)
    return time.monotonic() - began
