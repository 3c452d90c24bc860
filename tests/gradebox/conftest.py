import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gradebox.client import BatchHandle, Client
from gradebox.client.grader_names import GraderChoice
from tests.commands import run_command

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Service:
    """A real `gradebox serve`, and the environment variables for its clients."""

    url: str
    data_dir: Path
    process: subprocess.Popen[str]
    environment: dict[str, str]

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Runs a client command against the service."""
        return run_command(arguments, self.environment | {"GRADEBOX_URL": self.url}, ROOT, stdin)

    def ok(self, *arguments: str, stdin: bytes = b"") -> str:
        """What a command prints that succeeds."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, stdin: bytes = b"", code: int = 1) -> str:
        """What a command says on standard error that ends with this code."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    @property
    def key(self) -> str:
        """The first API key."""
        return (self.data_dir / "api-key").read_text().strip()

    def client(self, project: str = "default") -> Client:
        return Client(self.url, self.key, project)

    def new_project(self) -> Client:
        """A client of a new project."""
        client = self.client(f"p-{uuid4().hex[:8]}")
        client.projects.create(client.project)
        return client


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    with service.client() as client:
        yield client


def scored(client: Client, graders: GraderChoice, threads: Any) -> BatchHandle:
    """A batch of these threads that is over."""
    batch = client.batches.create(graders, threads)
    batch.wait(progress=False, timeout=90)
    return batch


@contextmanager
def serving(folder: Path, *arguments: str, **settings: str) -> Iterator[Service]:
    """Runs `gradebox serve` with its data in this folder and these GRADEBOX_* settings. Stops it at the end."""
    gradebox_free = {name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
    environment = gradebox_free | {"XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "share")}
    named = {f"GRADEBOX_{name.upper()}": value for name, value in settings.items()}
    port = () if "--port" in arguments else ("--port", "0")
    command = [sys.executable, "-m", "gradebox", "serve", *port, "--data-dir", str(folder / "data"), *arguments]
    with (folder / "stderr").open("a") as stderr:
        process = subprocess.Popen(
            command, env=environment | named, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True, bufsize=1
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("gradebox is ready at http"), (folder / "stderr").read_text()
        yield Service(line.split()[4], folder / "data", process, environment)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
