"""The event loop of the completions that one process grades. Each completion runs in a task of its own.

There is only one loop, because objects that a module creates may belong to a loop.
"""

import asyncio
import os
from asyncio import all_tasks
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import Context
from os import getpid
from selectors import BaseSelector
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from typing import Protocol

    class _HasFileno(Protocol):
        def fileno(self) -> int: ...


_Arguments = TypeVarTuple("_Arguments")
TURNS = 10  # of the loop, for tasks to end, besides one for each: a `finally` may await something


Grade = Callable[[Any], Coroutine[Any, Any, object]]


class CompletionLoop(asyncio.SelectorEventLoop):
    """An event loop in which a completion finds no timer, no watched descriptor and no setting of an earlier one.

    Connections and the executor that the loop creates stay, because a grader may use them in all completions.
    """

    _completion = 0
    _has_set_executor = False
    _ready: deque[asyncio.Handle]
    _task_factory: object
    _exception_handler: object
    _debug: bool
    _default_executor: object
    _executor_shutdown_called: bool
    _signal_handlers: dict[int, asyncio.Handle]

    def __init__(self, selector: BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._watched: set[int] = set()

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Sets a timer of the current completion. `call_later` and all of asyncio's timeouts use it."""
        completion = self._completion

        def call(*arguments: *_Arguments) -> None:
            if completion == self._completion:
                callback(*arguments)

        return super().call_at(when, call, *args, context=context)

    def add_reader(self, fd: "int | _HasFileno", callback: Callable[[*_Arguments], object], *args: *_Arguments) -> None:
        """Watches a descriptor for the current completion. asyncio's connections do not use this method."""
        super().add_reader(fd, callback, *args)
        self._watched.add(fd if isinstance(fd, int) else fd.fileno())

    def add_writer(self, fd: "int | _HasFileno", callback: Callable[[*_Arguments], object], *args: *_Arguments) -> None:
        """The same as `add_reader`, for writing."""
        super().add_writer(fd, callback, *args)
        self._watched.add(fd if isinstance(fd, int) else fd.fileno())

    def set_default_executor(self, executor: "ThreadPoolExecutor") -> None:  # type: ignore[override]  # as in asyncio
        """Sets the executor of the current completion. One that the loop creates serves all."""
        super().set_default_executor(executor)
        self._has_set_executor = True

    def end_completion(self) -> None:
        """Ends the timers, and what else the completion has set."""
        self._completion += 1
        while self._watched:
            descriptor = self._watched.pop()
            with suppress(RuntimeError):  # it was closed, and its number is now that of a connection
                self.remove_reader(descriptor)
                self.remove_writer(descriptor)
        for number in [*self._signal_handlers]:
            self.remove_signal_handler(number)
        if self._debug or self._task_factory is not None or self._exception_handler is not None:
            self.set_task_factory(None)
            self.set_exception_handler(None)
            self.set_debug(False)
        if self._has_set_executor or self._executor_shutdown_called:
            self._default_executor = None
            self._has_set_executor = self._executor_shutdown_called = False

    @property
    def has_callbacks(self) -> bool:
        """Whether a callback is about to be called: one that schedules itself again always is."""
        return bool(self._ready)


class CompletionRunner:
    """Runs the coroutine that grades one completion after the other.

    That coroutine is no task. So a completion finds no task except its own, and cannot cancel the one that grades all.
    """

    def __init__(self) -> None:
        self._loop = CompletionLoop()
        asyncio.set_event_loop(self._loop)

    def run(self, driver: Coroutine[Any, Any, None]) -> None:
        """Runs `driver` to its end. It may await the methods of this class, and `asyncio.sleep(0)`.

        Raises:
            BaseException: what `driver` raises, or the SystemExit or KeyboardInterrupt of a task that `grade` started.
        """
        over: asyncio.Future[None] = self._loop.create_future()

        def step(_: object = None) -> None:
            try:
                task = driver.send(None)
                if task is None:
                    self._loop.call_soon(step)
                else:
                    task.add_done_callback(step)
            except StopIteration:
                over.set_result(None)
                self._loop.stop()
            except BaseException as error:  # noqa: BLE001  # the loop would only log it
                over.set_exception(error)
                self._loop.stop()

        self._loop.call_soon(step)
        while not over.done():  # a completion may stop the loop
            self._loop.run_forever()
        over.result()

    async def grade(self, grade: Grade, thread: object) -> object:
        """Returns what `grade` returns, or raises what it raises. It runs in a new task."""
        ended: list[tuple[bool, Any]] = []
        task = asyncio.Task(note_end(grade, thread, ended), loop=self._loop)
        await _Ended(task)
        return result_of(ended)

    async def end_completion(self, is_plain: bool) -> bool:
        """Ends what a completion has set in the loop. Cancels the tasks that it left, and gives them a chance to end.

        Args:
            is_plain: whether it ended with a number: no generator can have been left by the end of an exception since.

        Returns:
            whether all tasks and callbacks have ended.
        """
        loop = self._loop
        loop.end_completion()
        left = all_tasks(loop)
        if is_plain and not left and not loop.has_callbacks:
            return True
        cancel(left)
        for _ in range(TURNS + len(left)):  # a task may wait for another; a generator that was left ends in a new one
            await asyncio.sleep(0)
            left = all_tasks(loop)
            if not left and not loop.has_callbacks:
                break
        loop.end_completion()  # of what was set meanwhile
        return not left and not loop.has_callbacks


def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks, except those in which asyncio ends generators that were left: their `finally` runs whole."""
    for task in tasks:
        if isinstance(task.get_coro(), CoroutineType):
            task.cancel()


class _Ended:
    """Awaited in the driver until a task has ended."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __await__(self) -> Generator[asyncio.Task[None], None, None]:
        yield self._task


def result_of(ended: list[tuple[bool, Any]]) -> object:
    """Returns or raises what `note_end` has put into `ended`."""
    if not ended:  # cancelled before it began
        raise asyncio.CancelledError
    has_returned, result = ended.pop()
    if has_returned:
        return result
    error: BaseException = result
    try:
        raise error
    finally:
        del error, result  # its traceback has this frame: it would keep itself and the objects of `grade`


async def note_end(grade: Grade, thread: object, ended: list[tuple[bool, Any]]) -> None:
    """Puts the result of `grade` into `ended`. As the result of the task, it is lost if the task is being cancelled,
    SystemExit would end the loop, and the traceback of an exception would keep it.
    """
    pid = getpid()
    try:
        ended.append((True, await grade(thread)))
    except BaseException as error:  # noqa: BLE001  # whatever a grader raises is its outcome
        ended.append((False, error))
    del ended  # a list that is not read, as after an ask, would keep the traceback, which has this frame
    if getpid() != pid:
        os._exit(0)  # `grade` forked, and this is the forked process: from Python 3.14 on it cannot end the task
