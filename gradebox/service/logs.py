"""The logs of the service's processes: a JSON object a line for programs, short lines for people at a terminal.

What others wrote stands in a line escaped and cut, if at all. Of an exception that is no known one, the class and the
place are logged and not its words: they may quote what a tenant sent.
"""

import logging
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal

import structlog
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from structlog.types import EventDict, Processor, WrappedLogger

LONGEST = 2000  # characters of one value
A_MINUTE = 60  # lines of one kind that libraries log; the others are counted
_KINDS = 1000
_FRAMES = 30
_OURS = ("sandbox", "storage", "redis")  # whose exceptions say nothing of what is inside a thread or a source
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"


class LogSettings(BaseSettings):
    """How the service logs."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")
    log_format: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal, else json")

    log_mb: int = Field(
        100, ge=1, description="MiB that the logs of all processes of `gradebox serve` may take on the disk"
    )

    @property
    def is_text(self) -> bool:
        """Whether lines are for people."""
        return self.log_format == "text" or (self.log_format == "auto" and sys.stderr.isatty())


def configure(role: str, settings: LogSettings | None = None) -> None:
    """Sends all that this process logs to stderr, that of libraries too."""
    settings = settings or LogSettings()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        _origin(role),
        _tell_exception,
        _bound,
    ]
    render: Processor = _line if settings.is_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, _ordered, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines,  # not by way of `logging`, which takes longer than all else that a line needs
        cache_logger_on_first_use=True,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of each request that succeeds
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _ordered, render],
        )
    )
    handler.addFilter(Sparing())
    logging.raiseExceptions = False  # a log on a disk that is full is no reason to stop
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class Sparing(logging.Filter):
    """Lets so many lines of one kind through in a minute. The first of the next says how many were left out.

    What libraries say of a request that makes no sense is a line for each, and anybody may send those.
    """

    def __init__(self, a_minute: int = A_MINUTE, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._a_minute = a_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._minute = -1
        self._counts = Counter[tuple[str, str]]()
        self._last_counts = self._counts

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is logged."""
        kind = record.name, str(record.msg)[:LONGEST]
        with self._lock:
            minute = int(self._clock() // 60)
            if minute != self._minute:
                self._minute, self._last_counts, self._counts = minute, self._counts, Counter()
            if kind not in self._counts and len(self._counts) >= _KINDS:
                return False
            self._counts[kind] += 1
            left_out = self._last_counts.pop(kind, 0) - self._a_minute
            passes = self._counts[kind] <= self._a_minute
        if passes and left_out > 0:
            record.msg = f"{record.msg} (and {left_out} like it that were not logged)"
        return passes


class _Lines:
    """Writes gradebox's own lines. A full disk raises nothing."""

    def __init__(self, *_named: object) -> None:
        pass

    def debug(self, line: str) -> None:
        """Writes one line, of whatever level."""
        with suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    info = warning = error = critical = debug


def escaped(text: str) -> str:
    """The text with all that a terminal does not simply print made visible, and cut where it is long."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text)} characters)"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _origin(role: str) -> Processor:
    pid = os.getpid()

    def add(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["role"], event["pid"] = role, pid
        return event

    return add


def _ordered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """When, how bad and what come first."""
    first = {name: event.pop(name) for name in ("at", "level", "event")}
    return first | dict(event)


def _bound(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Also for JSON: values of a log may be printed to a terminal."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escaped(value)
    return event


def _tell_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    found = event.pop("exc_info", None)
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found is True else found
    if isinstance(error, BaseException):
        event["exception"] = type(error).__qualname__
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _OURS:
            event["message"] = str(error)
        event["frames"] = _frames(error.__traceback__)
    return event


def _frames(trace: TracebackType | None) -> list[str]:
    found = traceback.extract_tb(trace)[-_FRAMES:]
    return [f"{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno} {frame.name}" for frame in found]


def _line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """For people: when, how bad, what, and the rest as name=value."""
    at, level, what = str(event.pop("at"))[11:19], event.pop("level"), event.pop("event")
    rest = "".join(f"  {name}={value if isinstance(value, str) else repr(value)}" for name, value in event.items())
    line = f"{at}  {level:<7}  {what}{escaped(rest)}"
    colour = _COLOURS.get(level) if sys.stderr.isatty() and "NO_COLOR" not in os.environ else None
    return f"{colour}{line}{_PLAIN}" if colour else line
