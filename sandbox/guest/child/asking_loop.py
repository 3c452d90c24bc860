"""Event-loop runs of a grader that asks."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from sandbox.guest.child.completion_loop import TURNS, CompletionLoop, cancel, note_end, result_of
from sandbox.guest.child.replay import Replay, WaitsForAnswers


class _IdleSelector(selectors.SelectSelector):
    """Detects an idle event loop: if it allows its selector any time, it has nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self.replay: Replay | None = None  # None while a run is ended: the loop must not wait then

    def select(self, timeout: float | None = None) -> Any:
        """Returns the ready events. Known answers are delivered when the loop would wait.

        Raises:
            WaitsForAnswers: the loop would wait while asks are pending, or while a run is ended.
        """
        replay = self.replay
        if timeout == 0 or not (replay is None or replay.is_asking):
            return super().select(timeout)
        ready = super().select(0)
        if ready or (replay is not None and replay.deliver()):
            return ready
        raise WaitsForAnswers


class AskingLoop:
    """The event loop of all runs of a process.

    It is created after the fork, because it has a socket pair, through which completions could reach each other.
    """

    def __init__(self) -> None:
        self._selector = _IdleSelector()
        self._loop = CompletionLoop(self._selector)

    def run(self, coroutine: Coroutine[Any, Any, object], replay: Replay) -> object:
        """Returns the result of the coroutine.

        Raises:
            WaitsForAnswers: it waits only for answers.
            BaseException: whatever the coroutine raises.
        """
        self._selector.replay = replay
        replay.loop = self._loop
        ended: list[tuple[bool, Any]] = []
        self._loop.run_until_complete(note_end(lambda _: coroutine, None, ended))
        return result_of(ended)

    def end_tasks(self) -> bool:
        """Ends what the run has set in the loop, and cancels its tasks.

        Returns whether all tasks and callbacks end without waiting for anything.
        """
        loop = self._loop
        loop.end_completion()
        self._selector.replay = None
        try:
            loop.run_until_complete(self._end_others())
        except BaseException:  # noqa: BLE001  # a `finally` of the grader may raise or wait
            return False
        loop.end_completion()  # of what was set meanwhile
        return not asyncio.all_tasks(loop) and not loop.has_callbacks

    async def _end_others(self) -> None:
        own = asyncio.current_task()
        left = asyncio.all_tasks() - {own}
        cancel(left)
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)
        if started := asyncio.all_tasks() - {own}:  # in which generators that were left end
            await asyncio.wait(started)
        for _ in range(TURNS):
            if not self._loop.has_callbacks:
                break
            await asyncio.sleep(0)
