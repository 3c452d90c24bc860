"""Reports threads that end by an exception: no other thread waits for their result."""

import threading

import structlog

_log = structlog.get_logger(__name__)
_ended: list[str] = []


def watch() -> None:
    """From now on, logs and counts each thread of this process that ends by an exception."""
    threading.excepthook = _note


def ended() -> int:
    """The number of threads that have ended by an exception."""
    return len(_ended)


def trouble() -> str | None:
    """A message about the first thread that has ended by an exception; None if there is none."""
    return f"a thread has ended with an error, {_ended[0]}: restart this process, and see its log" if _ended else None


def _note(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "unknown"
    _ended.append(f"{name} ({args.exc_type.__qualname__})")
    _log.critical("a thread has ended", thread=name, exc_info=args.exc_value)
