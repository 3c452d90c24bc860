"""The file by which a worker tells its container engine whether it can work.

The engine runs a check every few seconds. A check that asks Redis would take more than a tenth of a processor for each
worker, because it imports the client of Redis each time. This module imports only the standard library.
"""

import time
from pathlib import Path

SILENT_S = 20.0  # a process that has not reported for this long is considered dead


def write(path: Path, trouble: str) -> None:
    """Notes that the worker reported now, and what prevents it from working, or "". Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(trouble, "utf-8")
    new.replace(path)


def problem(path: Path) -> str:
    """What is wrong with the worker that writes the file, or "" if it can work."""
    try:
        age_s = time.time() - path.stat().st_mtime
        trouble = path.read_text("utf-8")
    except FileNotFoundError:
        return f"there is no {path}, which a worker writes when it has reported: see its log"
    if age_s < -SILENT_S:
        return "it has not reported to Redis since the clock was set back: see its log"
    if age_s > SILENT_S:
        return f"it has not reported to Redis for {age_s:.0f} s: see its log"
    return trouble
