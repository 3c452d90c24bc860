"""The memory of this machine, or of the container of this process."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def memory_bytes() -> int:
    """The memory for this process and all others beside it: the machine's, or the lower limit of a control group."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for folder in (_CGROUPS, _CGROUPS / "memory", *_own_groups()):  # a container's own group is the root
        for name in ("memory.max", "memory.limit_in_bytes"):  # version 2, version 1
            with suppress(OSError, ValueError):  # no such file, or "max"
                limits.append(int((folder / name).read_text()))
    return min(limits)


def _own_groups() -> Iterator[Path]:
    """The folders of the control group that limits this process's memory; they may not be visible in a container."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            yield _CGROUPS / ("memory" if controllers else "") / path.lstrip("/")
