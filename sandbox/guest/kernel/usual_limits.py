"""Makes limits work that many graders and programs request: those above the limits of the sandbox have no effect.

Where these requests failed, each program seemed to be wrong.
"""

import _thread
import os
import resource
import sys

_PROCESSORS = 4  # as many as graders see at most: a pool of the usual size fits into the processes of a sandbox


def accept_usual_limits() -> None:
    """From now on, `resource.setrlimit` and `threading.stack_size` accept more than the sandbox gives. `os.nice` and
    `os.sched_setaffinity` have no effect. A machine with many processors seems to have few.
    """
    _accept_limits()
    _accept_stacks()
    be_nice = os.nice
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    os.nice = lambda increment, /: priority if type(increment) is int and increment >= 0 else be_nice(increment)
    os.sched_setaffinity = lambda pid, mask, /: None
    for name in ("cpu_count", "process_cpu_count"):
        if hasattr(os, name):  # the second one from Python 3.13 on
            processors = min(getattr(os, name)() or 1, _PROCESSORS)
            setattr(os, name, lambda processors=processors: processors)


def _accept_limits() -> None:
    set_limit = resource.setrlimit

    def setrlimit(which: int, limits: tuple[int, int], /) -> None:
        # A program that wants no limit at all is refused, except for the stack: one with deep recursion wants that.
        known = isinstance(limits, tuple | list) and len(limits) == 2 and all(type(limit) is int for limit in limits)
        if known and (which == resource.RLIMIT_STACK or limits[0] != resource.RLIM_INFINITY):
            if which == resource.RLIMIT_CORE and limits[0] in (0, 1):
                return  # there are no cores
            _, most = resource.getrlimit(which)
            limits = tuple(_least(limit, most) for limit in limits)  # type: ignore[assignment]  # still of two
        set_limit(which, limits)

    resource.setrlimit = setrlimit


def _least(limit: int, most: int) -> int:
    endless = resource.RLIM_INFINITY
    return most if limit == endless or (most != endless and limit > most) else limit


def _accept_stacks() -> None:
    """A stack counts as memory as soon as its thread starts, and for a moment after it ends: two must fit."""
    set_size = _thread.stack_size

    def stack_size(size: int = 0, /) -> int:
        _, memory = resource.getrlimit(resource.RLIMIT_DATA)
        return set_size(min(size, memory * 3 // 8) if type(size) is int and memory > 0 else size)

    _thread.stack_size = stack_size
    if "threading" in sys.modules:
        sys.modules["threading"].stack_size = stack_size  # type: ignore[attr-defined]
