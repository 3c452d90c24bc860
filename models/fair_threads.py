"""Threads that projects share: each has its turn, and none has all of them."""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

Result = TypeVar("Result")


class _Call(NamedTuple, Generic[Result]):
    run: Callable[[], Result]
    result: Future[Result]


class FairThreads(Generic[Result]):
    """Calls wait in a queue of their project's, and the queues are served in turns."""

    def __init__(self, name: str, threads: int, of_one: int) -> None:
        """So many `threads` in all, and `of_one` project at one time."""
        self._of_one = of_one
        self._threads = ThreadPoolExecutor(threads, name)
        self._lock = Lock()
        self._waiting: dict[str, deque[_Call[Result]]] = {}  # in the order of their turns
        self._running: Counter[str] = Counter()

    def submit(self, project: str, run: Callable[[], Result]) -> Future[Result]:
        """What `run` will return."""
        result: Future[Result] = Future()
        with self._lock:
            self._waiting.setdefault(project, deque()).append(_Call(run, result))
        self._threads.submit(self._work)
        return result

    def close(self) -> None:
        """Cancels what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            left = [call for calls in self._waiting.values() for call in calls]
            self._waiting.clear()
        for call in left:
            call.result.cancel()

    def _work(self) -> None:
        """Runs calls until none may run. What waits then is of projects that have their part: each runs on here."""
        while (found := self._take()) is not None:
            project, call = found
            try:
                if call.result.set_running_or_notify_cancel():
                    _run(call)
            finally:
                with self._lock:
                    self._running[project] -= 1

    def _take(self) -> tuple[str, _Call[Result]] | None:
        with self._lock:
            project = next((each for each in self._waiting if self._running[each] < self._of_one), None)
            if project is None:
                return None
            calls = self._waiting.pop(project)
            call = calls.popleft()
            if calls:
                self._waiting[project] = calls  # behind the others
            self._running += Counter({project: 1})  # which forgets those that run nothing
            return project, call


def _run(call: _Call[Result]) -> None:
    try:
        result = call.run()
    except BaseException as error:  # noqa: BLE001  # who waits for it is told
        call.result.set_exception(error)
    else:
        call.result.set_result(result)
