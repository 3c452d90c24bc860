"""Runs of a grader that asks and needs an event loop."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from sandbox.guest.child.asking_run import Replay, WaitsForAnswers


class _IdleSelector(selectors.SelectSelector):
    """An event loop that gives its selector any time at all has nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self.replay: Replay | None = None  # none while a run is ended: then nothing is waited for

    def select(self, timeout: float | None = None) -> Any:
        """What is ready. Raises WaitsForAnswers where the loop would wait, and something is asked."""
        if timeout == 0 or not (self.replay is None or self.replay.waiting):
            return super().select(timeout)
        if ready := super().select(0):
            return ready
        raise WaitsForAnswers


class AskingLoop:
    """One for all runs of a process, since what a module makes may belong to a loop. It is made after the fork: it has
    a socket pair, by which completions could reach each other.
    """

    def __init__(self) -> None:
        self._selector = _IdleSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)

    def run(self, coroutine: Coroutine[Any, Any, object], replay: Replay) -> object:
        """What the coroutine returns. Raises what it raises, and WaitsForAnswers where only answers are waited for."""
        self._selector.replay = replay
        return self._loop.run_until_complete(coroutine)

    def end_tasks(self) -> bool:
        """Cancels what is left, and returns whether all of it ends without waiting for anything."""
        tasks = asyncio.all_tasks(self._loop)
        if not tasks:
            return True
        for task in tasks:
            task.cancel()
        self._selector.replay = None
        try:
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        except BaseException:  # noqa: BLE001  # a grader's own `finally` may raise or wait
            return False
        return True
