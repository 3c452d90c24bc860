"""Helpers for tests that watch processes, or that need a new interpreter."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]


def runs(pid: int) -> bool:
    """Whether this process exists and is no zombie."""
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def eventually(holds: Callable[[], bool], within_s: float = 8.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def printed(source: str) -> str:
    """What a new interpreter prints that can import this repository and has imported little."""
    start = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    command = [sys.executable, "-I", "-c", start + source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
