"""The logs of the service's processes: a JSON object a line for programs, short lines for people at a terminal.

Text from others is logged only escaped and cut. Of an unknown exception, only the class and the traceback are logged
and not the message, which may quote a tenant's data.
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
A_MINUTE = 60  # lines of one kind from libraries that are logged; further ones are only counted
_KINDS = 1000
_FRAMES = 30
_OURS = ("sandbox", "storage", "redis")  # packages whose exceptions contain no data of a thread or source
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"


class LogSettings(BaseSettings):
    """The settings of the service's logs."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level that is logged")
    log_format: Literal["auto", "json", "text"] = Field("auto", description="`auto`: text on a terminal, else json")

    log_mb: int = Field(100, ge=1, description="MiB on disk for the logs of all processes of `gradebox serve`")

    @property
    def is_text(self) -> bool:
        """Whether lines are text for people and not JSON."""
        return self.log_format == "text" or (self.log_format == "auto" and sys.stderr.isatty())


def configure(role: str, settings: LogSettings | None = None) -> None:
    """Sends all logs of this process to stderr, including those of libraries."""
    settings = settings or LogSettings()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        _origin(role),
        _add_exception,
        _bound,
    ]
    render: Processor = _line if settings.is_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, _ordered, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines,  # not through `logging`, which takes longer than the rest of a line's processing
        cache_logger_on_first_use=True,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs each successful request
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _ordered, render],
        )
    )
    handler.addFilter(Sparing())
    logging.raiseExceptions = False  # a full disk under the log must not stop the process
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class Sparing(logging.Filter):
    """Limits the lines of one kind in a minute. The first line of a later minute has the number of omitted lines.

    Libraries log a line for each malformed request, and any client can send those.
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
            record.msg = f"{record.msg} (and {left_out} similar ones that were not logged)"
        return passes


class _Lines:
    """Writes gradebox's own log lines, and ignores errors such as a full disk."""

    def __init__(self, *_named: object) -> None:
        pass

    def debug(self, line: str) -> None:
        """Writes one line of any level."""
        with suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    info = warning = error = critical = debug


def escaped(text: str) -> str:
    """The text with nonprintable characters escaped, and cut if it is longer than `LONGEST`."""
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
    """Moves the time, the level and the event to the front."""
    first = {name: event.pop(name) for name in ("at", "level", "event")}
    return first | dict(event)


def _bound(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes string values, also for JSON, since a log may be printed to a terminal."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escaped(value)
    return event


def _add_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
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
    """Renders a line for people: the time, level and event, and the other fields as name=value."""
    at, level, what = str(event.pop("at"))[11:19], event.pop("level"), event.pop("event")
    rest = "".join(f"  {name}={value if isinstance(value, str) else repr(value)}" for name, value in event.items())
    line = f"{at}  {level:<7}  {what}{escaped(rest)}"
    colour = _COLOURS.get(level) if sys.stderr.isatty() and "NO_COLOR" not in os.environ else None
    return f"{colour}{line}{_PLAIN}" if colour else line
