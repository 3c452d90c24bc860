"""What completions leave in their process, in batch isolation: threads that run, and descriptors and files, of which
later ones would have too few. A process with too much of these grades no further completion.
"""

from __future__ import annotations

import errno
import os
import sys
from _thread import _count as count_threads  # `threading.active_count` takes ten times as long, each completion
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_SHARE = 3  # a third of what is free at the start may be taken: this is not looked at after each completion
_SCRATCH = "/tmp"
# It is looked at after so many completions, and after each one that takes longer: it may have left much.
_LOOK_EACH, _LONG_MICROS = 64, 500
_GRACE_S, _PAUSE_S = 0.0003, 0.00001  # for threads that are about to end
_LIBRARY = os.path.dirname(os.__file__)
_POOL_OF_THREADS = f"{_LIBRARY}/concurrent/futures/thread.py"
_POOL_OF_PROCESSES = f"{_LIBRARY}/multiprocessing/"
_WAITING = (_POOL_OF_PROCESSES, *(f"{_LIBRARY}/{name}.py" for name in ("queue", "selectors", "threading")))


class ProcessState:
    """The state of this process when it is created, before its first completion."""

    def __init__(self) -> None:
        self._threads = count_threads()
        self._unseen = 0  # completions since the last look
        lowest = _lowest_descriptor()
        self._highest = lowest + (os.sysconf("SC_OPEN_MAX") - lowest) // _SHARE
        self._least_free = _free_bytes() * (_SHARE - 1) // _SHARE

    def is_fit_after(self, micros: int) -> bool:
        """Whether this process can grade another completion, after one that took so many microseconds."""
        self._unseen += 1
        if self._unseen < _LOOK_EACH and micros <= _LONG_MICROS and count_threads() == self._threads:
            return True
        self._unseen = 0
        return self.is_fit()

    def is_fit(self) -> bool:
        """Whether this process can grade another completion. Looks at all of its state."""
        if _lowest_descriptor() > self._highest or _free_bytes() < self._least_free:
            return False
        return count_threads() == self._threads or self._has_only_waiting_threads()

    def _has_only_waiting_threads(self) -> bool:
        """Whether all threads that are not of the module body wait for the work of a pool."""
        deadline = monotonic() + _GRACE_S
        while others := count_threads() - self._threads:
            if sum(map(_waits_for_work, sys._current_frames().values())) >= others:
                return True
            if monotonic() > deadline:
                return False
            sleep(_PAUSE_S)
        return True


def lacks_descriptor_or_room(error: BaseException) -> bool:
    """Whether an error says that there is no free descriptor, or no free space."""
    if not issubclass(type(error), OSError):
        return False
    number = OSError.errno.__get__(error)  # type: ignore[union-attr]  # a subclass could run code
    return type(number) is int and number in (errno.EMFILE, errno.ENOSPC)


def _lowest_descriptor() -> int:
    """The lowest descriptor that is free; many if none is."""
    try:
        descriptor = os.dup(1)
    except OSError:
        return os.sysconf("SC_OPEN_MAX")
    os.close(descriptor)
    return descriptor


def _free_bytes() -> int:
    status = os.statvfs(_SCRATCH)
    return status.f_bavail * status.f_bsize


def _has_no_work(executor_reference: Any, work_queue: Any, **_: object) -> bool:
    """Whether all threads of an executor wait. From Python 3.13 on, the queue may have given its last piece of work to
    a thread that is about to go on: `submit` has counted that thread as idle no more.
    """
    executor = executor_reference()
    idle = executor is None or executor._idle_semaphore._value >= len(executor._threads)
    return idle and not work_queue.qsize()


def _waits_for_work(frame: FrameType | None) -> bool:
    """Whether a thread is one of a pool, and runs no function of the grader."""
    if frame is not None and frame.f_code.co_filename == _POOL_OF_THREADS:  # that of its work, if that has no frame
        return frame.f_code.co_name == "_worker" and _has_no_work(**frame.f_locals)
    files = []
    while frame is not None:
        if frame.f_code.co_name == "_handle_results" and frame.f_locals.get("cache"):
            return False  # the thread of a pool that has all of its unfinished jobs, as those after their timeout
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    is_of_pool = any(file.startswith(_POOL_OF_PROCESSES) for file in files)
    return is_of_pool and all(file.startswith(_WAITING) for file in files)
