"""The machine and the versions that the figures were measured with."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
_DISTRIBUTIONS = ("httpx", "msgspec", "uvicorn", "fastapi", "redis", "rq", "pydantic", "llm-sandbox")


def describe(scale: str) -> dict[str, Any]:
    """The machine, kernel, versions, date and load."""
    versions = {
        "bubblewrap": _said("bwrap", "--version").removeprefix("bubblewrap "),
        "redis-server": _said("redis-server", "--version").partition("v=")[2].partition(" ")[0],
        "docker": _said("docker", "version", "--format", "{{.Server.Version}}") or "none",
        **{name: importlib.metadata.version(name) for name in _DISTRIBUTIONS},
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _said("git", "-C", str(_ROOT), "describe", "--always", "--dirty") or "unknown",
        "scale": scale,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "none"
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
