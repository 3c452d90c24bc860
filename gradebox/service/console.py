"""The output of `gradebox serve` while it runs: short lines for people, or the logs of all its processes as JSON."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from rich.console import Console as Terminal
from rich.text import Text

from gradebox.number_text import number_text
from gradebox.service.logs import LogSettings, configure, escaped
from gradebox.service.tail import Tail

LINES_A_MINUTE = 60  # lines of the processes' logs that are printed

Event = Mapping[str, Any]


class Console:
    """Follows the logs of the processes, and prints their events on stderr."""

    def __init__(self, settings: LogSettings) -> None:
        configure("serve", settings)
        self._is_text = settings.is_text
        self._terminal = Terminal(file=sys.stderr, markup=False, highlight=False, soft_wrap=True)
        self._log = structlog.get_logger("serve")
        self._tails: list[Tail] = []
        self._minute = -1
        self._passed_on = 0

    @property
    def is_terminal(self) -> bool:
        """Whether stderr is a terminal."""
        return self._is_text and self._terminal.is_terminal

    def report(self, text: str) -> None:
        """Prints a message of `gradebox serve` itself."""
        if self._is_text:
            self._print(Text(_now()), "  ", escaped(text))
        else:
            self._log.info(text)

    def warn(self, text: str) -> None:
        """Prints a warning of `gradebox serve` itself."""
        if self._is_text:
            self._print(Text(_now()), "  ", Text(escaped(text), "yellow"))
        else:
            self._log.warning(text)

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Prints hints on a terminal, each line a name and its value."""
        if self.is_terminal:
            for name, value in lines:
                self._print(Text(f"  {name:<10}", "dim"), escaped(value))

    def follow(self, tails: Iterable[Tail]) -> None:
        """Sets the logs whose new lines `look` prints."""
        self._tails = list(tails)

    def look(self) -> None:
        """Prints the new lines of the logs."""
        for tail in self._tails:
            for line in tail.read():
                self._pass_on(line)

    def _pass_on(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return  # the last output of a process that died, which is printed with the report of its exit
        if not isinstance(event, dict) or (said := _message(event)) is None or not self._has_room():
            return
        if self._is_text:
            self._print(Text(_now()), "  ", said)
            return
        with suppress(OSError):  # a full disk under the log must not end the service
            print(line, file=sys.stderr, flush=True)  # noqa: T201  # a log line, unchanged

    def _has_room(self) -> bool:
        """Counts a line; false over the limit of this minute, since stderr may be a file without rotation."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._passed_on = minute, 0
        self._passed_on += 1
        if self._passed_on == LINES_A_MINUTE + 1:
            self.warn(f"more than {LINES_A_MINUTE} log lines this minute: the rest is in logs/ of the data folder")
        return self._passed_on <= LINES_A_MINUTE

    def _print(self, *parts: Text | str) -> None:
        with suppress(OSError):
            self._terminal.print(Text.assemble(*parts))


def _message(event: Event) -> Text | None:
    """The line for an event; None if it is not printed."""
    told = _FORMATTERS.get(str(event.get("event")))
    if told is not None:
        return told(event)
    if event.get("level") not in ("warning", "error", "critical"):
        return None
    reason = event.get("error") or event.get("exception")
    words = f"{event.get('role')}: {event.get('event')}" + (f": {reason}" if reason else "")
    return Text(escaped(words.replace("\n", "; ")), "yellow" if event["level"] == "warning" else "red")


def _accepted(event: Event) -> Text:
    graders = ", ".join(map(str, event["graders"]))
    return Text(f"batch {event['batch']} accepted: {event['completions']:,} completions for {graders}")


def _finished(event: Event) -> Text:
    seconds = max(float(event["run_s"]), 0.001)
    means = [f"{grader} {number_text(mean)}" for grader, mean in event["means"].items() if mean is not None]
    errors = [f"{count:,} {kind}" for kind, count in event["errors"].items()]
    parts = [f"in {seconds:.1f} s, {event['completions'] / seconds:,.0f}/s"]
    parts += [f"mean {', '.join(means)}"] * bool(means) + [f"errors: {', '.join(errors)}"] * bool(errors)
    if passed_over := event.get("not_applicable"):
        parts.append(f"not applicable: {passed_over:,}")
    return Text(f"batch {event['batch']} finished {'; '.join(parts)}", "green" if not errors else "")


def _cancelled(event: Event) -> Text:
    return Text(f"batch {event['batch']} cancelled")


def _dead(event: Event) -> Text:
    return Text(f"batch {event['batch']}, {event['grader']}: {escaped(event['warning'])}", "yellow")


_FORMATTERS: dict[str, Callable[[Event], Text]] = {
    "batch accepted": _accepted,
    "batch finished": _finished,
    "batch cancelled": _cancelled,
    "dead reward": _dead,
}


def _now() -> str:
    return time.strftime("%H:%M:%S")
