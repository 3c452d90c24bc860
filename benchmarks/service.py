"""A real `gradebox serve` to measure, with a client."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks import processes, threads
from gradebox.client import Client

STOP_S = 60


@dataclass(frozen=True)
class Service:
    """A running service with the graders of the benchmark."""

    url: str
    key: str
    pid: int
    client: Client

    def role(self, name: str) -> int:
        """The process id of a role: `api`, `worker` or `redis-server`."""
        return next(pid for pid in processes.family(self.pid) if f"-m {name}" in (said := processes.command(pid))
                    or said.startswith(name) or f"/{name} " in said)  # fmt: skip

    def score(self, graders: str | list[str], path: Path, count: int) -> float:
        """Seconds from the first byte of the upload to the last outcome read. RuntimeError if a score is missing."""
        started = perf_counter()
        batch = self.client.batches.create(graders, path)
        batch.wait(progress=False)
        outcomes = list(batch.outcomes())
        spent = perf_counter() - started
        lost = [outcome for outcome in outcomes if outcome.score is None]
        if lost or len(outcomes) != count * (1 if isinstance(graders, str) else len(graders)):
            raise RuntimeError(f"{len(lost)} of {len(outcomes)} threads have no score: {lost[:1]}")
        batch.delete()
        return spent


@contextmanager
def running(workers: int = 1, graders: Sequence[str] = threads.GRADERS, **settings: object) -> Iterator[Service]:
    """Starts a service on the cores that this process is pinned to. `settings` are those of `GRADEBOX_*`."""
    folder = Path(tempfile.mkdtemp(prefix="gradebox-bench-", dir=threads.folder()))
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
    ours |= {f"GRADEBOX_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "gradebox", "serve", "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(folder)], env=ours, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().partition(" at ")[2].split()[0]
        key = (folder / "api-key").read_text().strip()
        with Client(url, key) as client:
            one = threads.some(1)  # for test runs, with the metadata that the graders read
            for grader in graders:
                client.graders.create.function(key=grader, fn=threads.source(grader), isolation="batch", threads=one)
            yield Service(url, key, process.pid, client)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
        shutil.rmtree(folder, ignore_errors=True)
