"""Cancels the batches that nobody waits for any more because the process ends.

A reward that runs in a daemon thread does not notice that Ctrl-C ended the main thread.
"""

import atexit
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction

from gradebox.errors import GradeboxError

_log = logging.getLogger("gradebox")
_waited_for: dict[str, Callable[[], object]] = {}


@contextmanager
def cancelled_at_exit(batch_id: str, cancel: Callable[[], object]) -> Iterator[None]:
    """Calls `cancel` if the process ends inside the block. A coroutine function is not called: an event loop that ends
    cancels its tasks.
    """
    if not iscoroutinefunction(cancel):
        _waited_for[batch_id] = cancel
    try:
        yield
    finally:
        _waited_for.pop(batch_id, None)


@atexit.register
def _cancel() -> None:
    for batch_id, cancel in list(_waited_for.items()):
        _log.warning("batch %s is being cancelled; an interrupt leaves it running", batch_id)
        with suppress(GradeboxError):
            cancel()


os.register_at_fork(after_in_child=_waited_for.clear)  # the batches are the parent's
