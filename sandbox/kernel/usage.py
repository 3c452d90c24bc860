"""How much processor time a sandbox got, and whether other processes kept it from more. Both come from the kernel, not
from the guest.
"""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from sandbox.kernel.process_tree import family, read_proc

_TICKS = os.sysconf("SC_CLK_TCK")
_PRESSURE = Path("/proc/pressure/cpu")
_UTIME, _CSTIME = 11, 15  # slice of the fields after the name: the time of the process and of children it waited for
_BUSY = 0.5  # fraction of the time in which some process had to wait for a processor
_WANTED = 0.5  # fraction of the samples at which a completion could have run
_SHORT = 0.5  # fraction of the time; a completion that got less was short of processor time


class ProcessorUse(NamedTuple):
    """Counters of the kernel. `pressure_s` is None if it does not count how long processes wait."""

    at: float
    processor_s: float
    pressure_s: float | None
    load: float


class Starved(NamedTuple):
    """A sandbox that got less processor time than it could have used, in a period of `seconds`."""

    processor_s: float
    seconds: float


def processor_count() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def measure(pid: int) -> ProcessorUse:
    """Measures the usage of a process and its descendants, both living ones and those that were waited for."""
    pressure, recent = _pressure()
    load = recent if recent is not None else float(os.getloadavg()[0] > processor_count())
    return ProcessorUse(monotonic(), sum(_processor_s(one) for one in family(pid)), pressure, load)


def wants_processor(pid: int) -> bool:
    """Whether a descendant of this process can run at this moment: it runs, or waits for a processor."""
    return any(_can_run(task) for one in family(pid)[1:] for task in _tasks(one))


def starved(before: ProcessorUse, after: ProcessorUse, wanted: float) -> Starved | None:
    """Whether a sandbox got less than half of a processor between two measurements, and others are the likely reason.
    `wanted` is the fraction of that time in which it could have used one: otherwise it waited for something.
    """
    seconds, used = after.at - before.at, after.processor_s - before.processor_s
    if seconds <= 0 or used >= _SHORT * seconds or wanted < _WANTED:
        return None
    busy = after.load  # the kernel updates the sum each 2 s: for a shorter time, the last 10 s are more reliable
    if before.pressure_s is not None and after.pressure_s is not None:
        busy = max(busy, (after.pressure_s - before.pressure_s) / seconds)
    return Starved(max(used, 0.0), seconds) if busy >= _BUSY else None


def _pressure() -> tuple[float | None, float | None]:
    """Returns the seconds in which some process waited for a processor, and their fraction of the last ten seconds."""
    with suppress(OSError, ValueError, KeyError):
        fields = dict(field.split("=") for field in _PRESSURE.read_text().splitlines()[0].split()[1:])
        return int(fields["total"]) / 1e6, float(fields["avg10"]) / 100
    return None, None  # a kernel without pressure information


def _tasks(pid: int) -> list[Path]:
    with suppress(OSError):  # the process has exited meanwhile
        return [Path(task.path) for task in os.scandir(f"/proc/{pid}/task")]
    return []


def _can_run(task: Path) -> bool:
    return _fields(task / "stat")[:1] == ["R"]


def _processor_s(pid: int) -> float:
    return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[_UTIME:_CSTIME])) / _TICKS


def _fields(stat: Path) -> list[str]:
    """The fields after the name; none if the process has exited."""
    return read_proc(stat).rpartition(")")[2].split()
