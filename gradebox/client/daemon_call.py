"""Calls in daemon threads. A process that is interrupted waits for the threads of an executor, and not for these."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_call(call: Callable[[], T]) -> Future[T]:
    """Starts a call in a thread of its own, and returns its future result."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001  # raised where the result is awaited
            result.set_exception(error)

    threading.Thread(target=run, name="gradebox-reward", daemon=True).start()
    return result
