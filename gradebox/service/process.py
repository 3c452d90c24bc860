"""A process of the service: started, started again when it dies, and stopped."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SHORTEST_DELAY_S, LONGEST_DELAY_S = 0.5, 5.0
STEADY_S = 10.0  # a process that lived so long was well, and is started again at once


class ServiceProcess:
    """Keeps one process running, its output in a log.

    Attributes:
        stop_s: how many seconds it may take to stop before it is killed.
        deaths: how often it has died without being asked to.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        stop_s: float,
        pass_fds: Sequence[int] = (),
        wanted: Path | None = None,
    ) -> None:
        """`wanted`: it is started once this file is there."""
        self.name = name
        self.log = log
        self.stop_s = stop_s
        self.deaths = 0
        self._command = command
        self._environment = environment
        self._pass_fds = pass_fds
        self._wanted = wanted
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._started = 0.0
        self._start_at = 0.0
        self._delay = SHORTEST_DELAY_S

    def start(self) -> None:
        """Starts the process, where it is wanted, in a process group of its own: Ctrl-C is the service's to handle."""
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            if self._wanted is not None and not self._wanted.exists():
                return
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self.log.parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=self._pass_fds,
                process_group=0,
            )
        self._started = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """How the process ended, or None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def running(self) -> bool:
        """True while there is a process."""
        return self._process is not None and self._process.poll() is None

    def tend(self) -> str | None:
        """Starts a dead process again when its delay is over. What there is to tell the user, if anything."""
        now = time.monotonic()
        if self._process is None:
            return self._start_again(now) if now >= self._start_at else None
        code = self._process.poll()
        if code is None:
            return None
        delay = self._next_delay(now)
        self._process, self._start_at = None, now + delay
        self.deaths += 1
        return f"{self.name} {_ending(code)} and starts again in {delay:g} s; {self.last_words()} (see {self.log})"

    def _start_again(self, now: float) -> str | None:
        try:
            self.start()
        except OSError as error:  # no process, no memory, no room for its log: that may pass
            delay = self._next_delay(now)
            self._start_at = now + delay
            return f"{self.name} cannot be started ({error.strerror}) and is tried again in {delay:g} s"
        return None

    def said(self) -> str:
        """What this process has written so far: at most its last 4 KiB."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            start = self._log_start if self._log_start <= end else 0  # the log was put aside meanwhile
            log.seek(max(start, end - 4096))
            return log.read().decode("utf-8", "replace").strip()

    def last_words(self) -> str:
        """What the last line of its log says, where that may be why it ended."""
        line = (self.said().splitlines() or ["it said nothing"])[-1]
        try:
            event = json.loads(line)
            return str(event["event"]) if event["level"] in ("error", "critical") else "it did not say why"
        except (ValueError, KeyError, TypeError):  # not a line of ours: Python's own, or Redis'
            return line[:200]

    def warning(self) -> str | None:
        """What the last line of its log warns of, if it does: a process that runs may wait for that."""
        line = (self.said().splitlines() or [""])[-1]
        try:
            event = json.loads(line)
            found = event["event"], event.get("error")
            return ": ".join(str(part) for part in found if part) if event["level"] == "warning" else None
        except (ValueError, KeyError, TypeError):  # as above
            return None

    def ask_to_stop(self) -> None:
        """Sends SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, and waits for that."""
        self._send(signal.SIGKILL)
        if self._process:
            self._process.wait()

    def _send(self, number: int) -> None:
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _next_delay(self, now: float) -> float:
        if now - self._started > STEADY_S:
            self._delay = SHORTEST_DELAY_S
        delay, self._delay = self._delay, min(self._delay * 2, LONGEST_DELAY_S)
        return delay


def _ending(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
