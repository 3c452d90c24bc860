"""A run of a grader that asks and needs an event loop."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from sandbox.guest.child.asking_run import Asked, Replay


class _IdleSelector(selectors.SelectSelector):
    """An event loop that gives its selector any time at all has nothing else to do."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self._replay = replay

    def select(self, timeout: float | None = None) -> Any:
        """What is ready. Raises Asked where the loop would wait, and something is asked."""
        if timeout == 0 or not self._replay.waiting:
            return super().select(timeout)
        if ready := super().select(0):
            return ready
        raise Asked


def run(coroutine: Coroutine[Any, Any, object], replay: Replay) -> object:
    """What the coroutine returns. Raises Asked where nothing is left to wait for but answers, or what it raises."""
    # After the fork: the loop has a socket pair, by which completions could reach each other.
    return asyncio.SelectorEventLoop(_IdleSelector(replay)).run_until_complete(coroutine)
