"""The signal handlers that a module body installs are for the processes that grade.

A completion can send signals to the template, which is of the same user. Would a handler run there, what it changes
would reach all completions to come.
"""

from collections.abc import Callable, Mapping
from signal import SIG_DFL, SIG_IGN, SIGCHLD, default_int_handler, getsignal, signal, valid_signals
from types import FrameType

Handlers = Mapping[int, Callable[[int, FrameType | None], object]]


def put_away() -> Handlers:
    """Takes every handler from this process, which ignores those signals from now on. Returns them."""
    found = {int(number): getsignal(number) for number in valid_signals()}
    handlers = {
        number: handler for number, handler in found.items() if callable(handler) and handler is not default_int_handler
    }
    for number in handlers:
        signal(number, SIG_DFL if number == SIGCHLD else SIG_IGN)  # ignored children could not be waited for
    return handlers


def put_back(handlers: Handlers) -> None:
    """Gives them to this process."""
    for number, handler in handlers.items():
        signal(number, handler)
