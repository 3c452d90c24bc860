"""The resources that processes use, from /proc: memory in MiB, CPU time in seconds."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    return [pid, *(below for child in children(pid) for below in family(child))]


def children(pid: int) -> Iterator[int]:
    """The live children of the process."""
    with suppress(*_GONE):
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def command(pid: int) -> str:
    """The command line of the process; empty if it has ended."""
    with suppress(*_GONE):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def pss(pid: int) -> float:
    """The memory of a process, with shared pages divided among the processes that share them."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def rss(pid: int) -> float:
    """The resident memory of a process."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:")


def peak_rss(pid: int) -> float:
    """The peak memory of a process since `forget_peak`."""
    return _field(Path(f"/proc/{pid}/status"), "VmHWM:")


def forget_peak(pid: int) -> None:
    """Resets the peak memory of a process."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its descendants, including children that have ended."""
    return sum(map(_cpu_seconds, family(pid)))


def _cpu_seconds(pid: int) -> float:
    with suppress(*_GONE):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK_S  # user and system time, of the process and its ended children
    return 0.0


def _field(path: Path, name: str) -> float:
    with suppress(*_GONE):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0
