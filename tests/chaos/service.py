"""A real `gradebox serve` that can be killed and started again, with the same data folder and port."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx
from redis import Redis

from benchmarks import processes
from gradebox.client import Client
from tests.gradebox.conftest import ROOT

START_S = 120.0
ROLES = ("api", "worker", "redis")


@dataclass
class Service:
    """Runs the service. `seen` holds every process found so far, with its start time; none may be left at the end."""

    folder: Path
    workers: int
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    starts: int = 0
    seen: set[tuple[int, str]] = field(default_factory=set)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis(self) -> Redis:
        return Redis.from_url(f"unix://{self.folder}/data/redis.sock")

    def client(self) -> Client:
        return Client(self.url, (self.folder / "data" / "api-key").read_text().strip())

    def ensure(self) -> None:
        """Starts the service if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.port = self.port or _free_port()
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._command(), env=self._environment(), cwd=ROOT, stdout=log, stderr=log
                )
            self.starts += 1

    def await_ready(self) -> None:
        """Waits until the service is ready."""
        self.wait(self._ready, START_S, lambda: f"it did not get ready: {(self.folder / 'log').read_text()[-2000:]}")

    def wait(self, until: Callable[[], bool], seconds: float, told: Callable[[], object]) -> None:
        """Waits until this holds, and starts the service again whenever it ends. Fails with what `told` returns."""
        ends = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < ends, told()
            self.ensure()
            time.sleep(0.1)

    def stop(self) -> int:
        """Stops the service. Returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(self.family())
        if self._process is not None:
            self._process.wait()

    def kill(self, pids: Iterable[int]) -> bool:
        """Kills these processes. Returns whether there was any."""
        killed = False
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed = True
                if self._process is not None and pid == self._process.pid:
                    self._process.wait()  # else `ensure` may find that it still runs
        return killed

    def processes(self) -> dict[str, list[int]]:
        """The processes to kill: `serve`, each role, and as `sandbox` those that start, fork or supervise sandboxes."""
        found: dict[str, list[int]] = {name: [] for name in ("serve", *ROLES, "sandbox")}
        if self._process is None or self._process.poll() is not None:
            return found
        found["serve"].append(self._process.pid)
        for child in processes.children(self._process.pid):
            role = _role(processes.command(child))
            if role:
                found[role].append(child)
            if role in ("api", "worker"):
                found["sandbox"] += [one for wrap in processes.children(child) for one in _sandboxes(wrap)]
        self._remember()
        return found

    def family(self) -> list[int]:
        """All processes of the service."""
        return [] if self._process is None or self._process.poll() is not None else processes.family(self._process.pid)

    def left(self) -> list[str]:
        """The command lines of seen processes that still run."""
        return [processes.command(pid) for pid, started in self.seen if started and _started(pid) == started]

    def _remember(self) -> None:
        self.seen.update((pid, _started(pid)) for pid in self.family())

    def _command(self) -> list[str]:
        where = ["--port", str(self.port), "--data-dir", str(self.folder / "data")]
        return [sys.executable, "-m", "gradebox", "serve", *where, "--workers", str(self.workers)]

    def _environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
        return ours | self.settings | {"XDG_STATE_HOME": str(self.folder / "state")}

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False


def _sandboxes(wrap: int) -> list[int]:
    """bubblewrap, its child (the zygote), and the children of that: pid 1 of each sandbox, our supervisor. Deeper
    processes belong to the grader.
    """
    below = processes.children(wrap)
    return [wrap, *below, *(one for zygote in below for one in processes.children(zygote))]


def _role(command: str) -> str | None:
    return next((role for role in ROLES if f"-m {role}" in command or f"/{role}-server" in command), None)


def _started(pid: int) -> str:
    """The start time of a process, in the kernel's units; empty if the process does not exist or has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return fields[19] if fields[0] != "Z" else ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
