"""Logs that a call takes long, so that a notebook's cell is not silent for a minute."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer

_SLOW_S = 10.0

_log = logging.getLogger("gradebox")


@contextmanager
def told_if_slow(text: str) -> Iterator[None]:
    """Logs `text` if the block takes longer than ten seconds; never if `text` is empty."""
    if not text:
        yield
        return
    timer = Timer(_SLOW_S, _log.warning, [text])
    timer.daemon = True
    with suppress(RuntimeError):  # no thread can start, as while Python 3.12 exits: the call goes on
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
