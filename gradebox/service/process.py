"""A process of the service: starts it, restarts it when it dies, and stops it."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SHORTEST_DELAY_S, LONGEST_DELAY_S = 0.5, 5.0
_FULL_BYTES = 2**20
_REDIS_NOTE = re.compile(r"\d+:[CMSX] [\w :.]+ [.*-] ")  # below its level of warnings, `#`
STEADY_S = 10.0  # after running this long, a process restarts with the shortest delay


class ServiceProcess:
    """Keeps one process running, with its output in a log.

    Attributes:
        stop_s: how many seconds it may take to stop before it is killed.
        deaths: how often it has exited without being stopped.
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
        """With `wanted`, the process is started only once this file exists."""
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
        """Starts the process if it is wanted, in a separate process group, so that only the service handles Ctrl-C."""
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
        """The exit code of the process, or None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def tend(self) -> str | None:
        """Restarts a dead process when its delay is over. Returns a message for the user, if there is one."""
        now = time.monotonic()
        if self._process is None:
            return self._start_again(now) if now >= self._start_at else None
        code = self._process.poll()
        if code is None:
            return None
        delay = self._next_delay(now)
        self._process, self._start_at = None, now + delay
        self.deaths += 1
        return f"{self.name} {_ending(code)} and starts again in {delay:g} s; {self.exit_reason()} (see {self.log})"

    def _start_again(self, now: float) -> str | None:
        try:
            self.start()
        except OSError as error:  # no process, memory or disk space left: possibly temporary
            delay = self._next_delay(now)
            self._start_at = now + delay
            return f"{self.name} cannot be started ({error.strerror}) and is tried again in {delay:g} s"
        return None

    def output(self) -> str:
        """The output of this process since its start, at most the last 4 KiB."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            start = self._log_start if self._log_start <= end else 0  # else the log was rotated meanwhile
            log.seek(max(start, end - 4096))
            return log.read().decode("utf-8", "replace").strip()

    def exit_reason(self) -> str:
        """The last line of its log, if it may be the reason for its exit; or that the disk is full, which ends Redis
        and leaves no room for such a line.
        """
        if shutil.disk_usage(self.log.parent).free < _FULL_BYTES:
            return f"the disk of {self.log.parent} is full: free some of it"
        line = (self.output().splitlines() or ["it said nothing"])[-1]
        try:
            event = json.loads(line)
            return str(event["event"]) if event["level"] in ("error", "critical") else "it did not say why"
        except (ValueError, KeyError, TypeError):  # a line from Python or Redis, not one of ours
            return "it did not say why" if _REDIS_NOTE.match(line) else line[:200]

    def warning(self) -> str | None:
        """The warning in the last line of its log, or None. A running process may wait for its cause to end."""
        line = (self.output().splitlines() or [""])[-1]
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
        """Sends SIGKILL, and waits for the process to end."""
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
