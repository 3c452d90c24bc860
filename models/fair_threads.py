"""A thread pool shared by projects: each project has its turn, and no project can occupy all threads."""

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
    """Each project has a queue of calls, and the queues are served in turn."""

    def __init__(self, name: str, threads: int, of_one: int) -> None:
        """`threads` is the size of the pool, `of_one` the maximum number of threads that one project uses at once."""
        self._of_one = of_one
        self._threads = ThreadPoolExecutor(threads, name)
        self._lock = Lock()
        self._waiting: dict[str, deque[_Call[Result]]] = {}  # in the order of the turns
        self._running: Counter[str] = Counter()

    def submit(self, project: str, run: Callable[[], Result]) -> Future[Result]:
        """Queue a call; returns a future of its result."""
        result: Future[Result] = Future()
        with self._lock:
            self._waiting.setdefault(project, deque()).append(_Call(run, result))
        self._threads.submit(self._work)
        return result

    def close(self) -> None:
        """Cancel waiting calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            left = [call for calls in self._waiting.values() for call in calls]
            self._waiting.clear()
        for call in left:
            call.result.cancel()

    def _work(self) -> None:
        """Runs calls until none is eligible. The rest belongs to projects at their limit, whose running calls take them
        up."""
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
                self._waiting[project] = calls  # at the end of the order
            self._running += Counter({project: 1})  # this addition also drops projects with a count of 0
            return project, call


def _run(call: _Call[Result]) -> None:
    try:
        result = call.run()
    except BaseException as error:  # noqa: BLE001  # the caller receives it through the future
        call.result.set_exception(error)
    else:
        call.result.set_result(result)
