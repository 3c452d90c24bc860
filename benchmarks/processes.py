"""What processes use, as Linux tells it: memory in MiB, CPU time in seconds."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def family(pid: int) -> list[int]:
    """This process and all below it."""
    return [pid, *(below for child in children(pid) for below in family(child))]


def children(pid: int) -> Iterator[int]:
    """The processes that this one started and that live."""
    with suppress(*_GONE):
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())


def command(pid: int) -> str:
    """What the process was started as."""
    with suppress(*_GONE):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def pss(pid: int) -> float:
    """The memory of a process, pages that several share divided between them."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")


def rss(pid: int) -> float:
    """The memory of a process."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:")


def peak_rss(pid: int) -> float:
    """The most memory that it had since `forget_peak`."""
    return _field(Path(f"/proc/{pid}/status"), "VmHWM:")


def forget_peak(pid: int) -> None:
    """From here on the peak counts."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """Of a process and all that live below it, with those that have ended meanwhile."""
    return sum(map(_cpu_seconds, family(pid)))


def _cpu_seconds(pid: int) -> float:
    with suppress(*_GONE):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK_S  # its own and its ended children's, user and system
    return 0.0


def _field(path: Path, name: str) -> float:
    with suppress(*_GONE):
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0
