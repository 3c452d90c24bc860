"""Bounds the memory of a sandbox's processes together where no control group can: it looks, and kills.

A look each 50 ms costs little and is late by so much. Resident memory is summed first, which counts shared pages for
each process that has them; only where that is too much is the sum of proportional shares (PSS) asked for.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_LOOK_S = 0.05
_MOST_PROCESSES = 1024  # more than a sandbox may have
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MonitoredSandbox(Protocol):
    """A sandbox to be watched: its pid 1, its bound in bytes (0: none yet), and how to end it."""

    pid: int
    memory_bytes: int

    def kill_for_memory(self) -> None:
        """Ends the sandbox, and remembers why."""


class Monitor(threading.Thread):
    """Watches the sandboxes of one backend."""

    def __init__(self) -> None:
        super().__init__(name="memory-monitor", daemon=True)
        self._watched: set[MonitoredSandbox] = set()
        self._changed = threading.Condition()
        self._ended = False

    def watch(self, sandbox: MonitoredSandbox) -> None:
        """Watches it until `forget`."""
        with self._changed:
            self._watched.add(sandbox)
            self._changed.notify()

    def forget(self, sandbox: MonitoredSandbox) -> None:
        """Watches it no more: its processes are gone, and their pids may be somebody else's."""
        with self._changed:
            self._watched.discard(sandbox)

    def end(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Looks until it is ended; sleeps while there is nothing to watch."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._watched)
                if self._ended:
                    return
                for sandbox in [*self._watched]:
                    if sandbox.memory_bytes and memory_of(sandbox.pid, sandbox.memory_bytes) > sandbox.memory_bytes:
                        sandbox.kill_for_memory()
                        self._watched.discard(sandbox)
                self._changed.wait_for(lambda: self._ended, _LOOK_S)


def memory_of(pid: int, enough: int) -> int:
    """The memory of a process and all below it, in bytes: exact where it is more than `enough`, else an upper bound."""
    pids = family(pid)
    resident = sum(_resident(one) for one in pids)
    return resident if resident <= enough else sum(_proportional(one) for one in pids)


def family(pid: int) -> list[int]:
    """A process and all below it; not without an end where they fork faster than they can be followed."""
    found = [pid]
    for current in found:  # which grows meanwhile
        with suppress(OSError):  # it has ended meanwhile
            for children in Path(f"/proc/{current}/task").glob("*/children"):
                found.extend(map(int, _read(children).split()))
        if len(found) > _MOST_PROCESSES:
            break
    return found


def _resident(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)  # a process that hides itself, as the supervisor does


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended meanwhile
        return ""
