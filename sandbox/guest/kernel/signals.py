"""The effects of signals: at the start those of any Python program, then those that a module body installs.

Handlers of a module body are moved from the template to the processes that grade. A completion can send signals to the
template, which runs as the same user. If a handler ran there, its side effects would leak into all later completions.
"""

from collections.abc import Callable, Mapping
from signal import (
    ITIMER_PROF,
    ITIMER_REAL,
    ITIMER_VIRTUAL,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIGCHLD,
    SIGPIPE,
    SIGXFSZ,
    default_int_handler,
    getsignal,
    pthread_sigmask,
    setitimer,
    signal,
    valid_signals,
)
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int
Handlers = Mapping[int, _Handler]


def forget_inherited() -> None:
    """Unblocks all signals, and gives each the effect that it has in a new Python program.

    What started the service may have changed them: nohup ignores SIGHUP, and a shell without job control ignores SIGINT
    and SIGQUIT of its background jobs.
    """
    pthread_sigmask(SIG_SETMASK, ())
    for number in valid_signals():
        if getsignal(number) == SIG_IGN and number not in (SIGPIPE, SIGXFSZ):  # Python ignores these two
            signal(number, SIG_DFL)


def end_alarms() -> None:
    """Ends the timers of this process that send it signals: of real time and of processor time."""
    for timer in (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF):
        setitimer(timer, 0)


def put_away() -> Handlers:
    """Removes all handlers from this process, which ignores their signals from now on. Returns the handlers, and that
    SIGCHLD is ignored, if it is.
    """
    found = {int(number): getsignal(number) for number in valid_signals()}
    handlers: dict[int, _Handler] = {
        number: handler for number, handler in found.items() if callable(handler) and handler is not default_int_handler
    }
    if found[SIGCHLD] == SIG_IGN:
        handlers[SIGCHLD] = SIG_IGN
    for number in handlers:
        signal(number, SIG_DFL if number == SIGCHLD else SIG_IGN)  # if SIGCHLD were ignored, waitpid would fail
    return handlers


def put_back(handlers: Handlers) -> None:
    """Installs these handlers in this process."""
    for number, handler in handlers.items():
        signal(number, handler)
