"""Threads that end by an exception: nobody waits for them, so it is told here."""

import threading

import structlog

_log = structlog.get_logger(__name__)
_ended: list[str] = []


def watch() -> None:
    """Logs and counts each thread of this process that ends by an exception, from now on."""
    threading.excepthook = _note


def ended() -> int:
    """How many have ended so."""
    return len(_ended)


def trouble() -> str | None:
    """Which has ended; None when none has."""
    return (
        f"a thread has ended by a fault, {_ended[0]}: start this process again, its log says more" if _ended else None
    )


def _note(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "unknown"
    _ended.append(f"{name} ({args.exc_type.__qualname__})")
    _log.critical("a thread has ended", thread=name, exc_info=args.exc_value)
