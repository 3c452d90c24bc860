"""Limits the memory of a sandbox's processes together if no control group can: it polls, and kills.

A poll each 50 ms costs little and detects an excess up to 50 ms late. Resident memory is summed first, which counts a
shared page once for each process that has it. The sum of proportional shares (PSS) is read only if that sum is too
large.
"""

import os
import threading
from pathlib import Path
from typing import Protocol

from sandbox.errors import IsolationUnavailable
from sandbox.kernel.process_tree import family, read_proc

_CHILDREN = Path("/proc/thread-self/children")
_LOOK_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def check() -> None:
    """Raises IsolationUnavailable if this kernel does not list children: only pid 1 of a sandbox would be counted."""
    if not _CHILDREN.exists():
        raise IsolationUnavailable(
            f"there is no {_CHILDREN}, so the memory of a sandbox's processes cannot be bounded together: run as root, "
            "or let this user write control groups, or use a kernel with CONFIG_PROC_CHILDREN."
        )


class MonitoredSandbox(Protocol):
    """A sandbox to be watched: its pid 1, its limit in bytes (0: none yet), and a method to end it."""

    pid: int
    memory_bytes: int

    def kill_for_memory(self) -> None:
        """Ends the sandbox and records the reason."""


class Monitor(threading.Thread):
    """Watches the sandboxes of one backend."""

    def __init__(self) -> None:
        super().__init__(name="memory-monitor", daemon=True)
        self._watched: set[MonitoredSandbox] = set()
        self._changed = threading.Condition()
        self._ended = False

    def watch(self, sandbox: MonitoredSandbox) -> None:
        """Watches a sandbox until `forget`."""
        with self._changed:
            self._watched.add(sandbox)
            self._changed.notify()

    def forget(self, sandbox: MonitoredSandbox) -> None:
        """Stops watching a sandbox: its processes have exited, and other processes may get their pids."""
        with self._changed:
            self._watched.discard(sandbox)

    def end(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Polls until `end` is called; sleeps while there is nothing to watch."""
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
    """The memory of a process and its descendants, in bytes: exact if it exceeds `enough`, otherwise an upper bound."""
    pids = family(pid)
    resident = sum(_resident(one) for one in pids)
    return resident if resident <= enough else sum(_proportional(one) for one in pids)


def _resident(pid: int) -> int:
    fields = read_proc(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    for line in read_proc(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)  # the process is hidden (not dumpable), as the supervisor is
