"""A thread pool shared by projects: each project has its turn, and no project can occupy all threads."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from sandbox.pool.fair_shares import Shares

Result = TypeVar("Result")


class FairThreads(Generic[Result]):
    """As many threads as there are places in `Shares`, which divides them among the projects."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._shares = Shares(threads, name)
        self._unfinished: set[Future[Result]] = set()

    def submit(self, project: str, run: Callable[[], Result]) -> Future[Result]:
        """Queue a call; returns a future of its result."""
        result: Future[Result] = Future()
        self._unfinished.add(result)
        result.add_done_callback(self._unfinished.discard)
        self._shares.ask(project, partial(self._threads.submit, self._run, project, run, result))
        return result

    def close(self) -> None:
        """Cancel waiting calls."""
        self._threads.shutdown(wait=False)
        for call in [*self._unfinished]:
            call.cancel()

    def _run(self, project: str, run: Callable[[], Result], result: Future[Result]) -> None:
        try:
            if result.set_running_or_notify_cancel():
                result.set_result(run())
        except BaseException as error:  # noqa: BLE001  # the caller receives it through the future
            result.set_exception(error)
        finally:
            self._shares.leave(project)
