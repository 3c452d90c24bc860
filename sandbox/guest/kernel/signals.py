"""Moves the signal handlers that a module body installs from the template to the processes that grade.

A completion can send signals to the template, which runs as the same user. If a handler ran there, its side effects
would leak into all later completions.
"""

from collections.abc import Callable, Mapping
from signal import SIG_DFL, SIG_IGN, SIGCHLD, default_int_handler, getsignal, signal, valid_signals
from types import FrameType

Handlers = Mapping[int, Callable[[int, FrameType | None], object]]


def put_away() -> Handlers:
    """Removes all handlers from this process, which ignores their signals from now on. Returns the handlers."""
    found = {int(number): getsignal(number) for number in valid_signals()}
    handlers = {
        number: handler for number, handler in found.items() if callable(handler) and handler is not default_int_handler
    }
    for number in handlers:
        signal(number, SIG_DFL if number == SIGCHLD else SIG_IGN)  # if SIGCHLD were ignored, waitpid would fail
    return handlers


def put_back(handlers: Handlers) -> None:
    """Installs these handlers in this process."""
    for number, handler in handlers.items():
        signal(number, handler)
