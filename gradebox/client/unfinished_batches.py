"""Cancels the batches of rewards for which a process waits when it ends.

A reward that runs in a daemon thread does not notice that Ctrl-C ended the main thread.
"""

import atexit
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from time import monotonic

_MOST_S = 5.0  # for all batches, so that a process can end while the service is away

_log = logging.getLogger("gradebox")
_waited_for: dict[str, Callable[[float], object]] = {}


@contextmanager
def cancelled_at_exit(batch_id: str, cancel: Callable[[float], object]) -> Iterator[None]:
    """Calls `cancel` with the number of seconds that it may take, if the process ends inside the block. A coroutine
    function is not called: an event loop that ends cancels its tasks.
    """
    if not iscoroutinefunction(cancel):
        _waited_for[batch_id] = cancel
    try:
        yield
    finally:
        _waited_for.pop(batch_id, None)


@atexit.register
def _cancel() -> None:
    ends = monotonic() + _MOST_S
    for batch_id, cancel in list(_waited_for.items()):
        if (left_s := ends - monotonic()) <= 0:
            _log.warning("batch %s is left running", batch_id)
            continue
        _log.warning("batch %s is being cancelled; an interrupt leaves it running", batch_id)
        cancel(left_s)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_waited_for.clear)  # the batches are the parent's
