"""Runs the program that computes statistics, within limits."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from time import monotonic
from typing import IO, Literal, TypeAlias

import api
from api.http.problems import too_large
from api.numbers import lines
from api.numbers.jobs import OUT_OF_MEMORY, Job
from sandbox.errors import InfrastructureError, Stopped

TIME_S = 60.0
_COMMAND = [sys.executable, "-P", "-m", "api.numbers.program"]  # -P: do not import modules from the working folder
_SHOWN = 2000  # bytes of the end of a failed program's stderr that are reported
_LOOK_S = 0.2

IsGone: TypeAlias = Callable[[], bool]
"""Whether the caller no longer waits for the result. Any thread may call it."""


def run(job: Job, streams: Iterable[Iterable[bytes]], is_gone: IsGone) -> bytes:
    """Returns what the program prints for a job and its streams of lines. Raises as `run_into` does."""
    with TemporaryFile() as result:
        run_into(result, job, streams, is_gone)
        result.seek(0)
        return result.read()


def run_into(result: IO[bytes], job: Job, streams: Iterable[Iterable[bytes]], is_gone: IsGone) -> None:
    """Runs the program with `result` as its standard output. The streams are forwarded block by block.

    Raises:
        ProblemError: it takes more than `TIME_S`, or more than 2 GiB of memory.
        Stopped: the caller no longer waits.
        InfrastructureError: the program failed.
    """
    with (
        TemporaryFile() as errors,
        subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=result, stderr=errors, env=_environment()) as process,
    ):
        assert process.stdin is not None
        watchdog = _Watchdog(process, is_gone)
        watchdog.start()
        try:
            _send(process.stdin, job, streams)
            code = process.wait()
        finally:
            watchdog.stop()
            process.kill()  # no effect if it has exited
        if code != 0 and watchdog.found == "gone":
            raise Stopped("the caller no longer waits for the statistics")
        if code != 0 and watchdog.found == "late":
            raise too_large(f"statistics of so many outcomes take more than {TIME_S:g} s: compare fewer at once")
        if code == OUT_OF_MEMORY:
            raise too_large("statistics of so many outcomes take more than 2 GiB of memory: compare fewer at once")
        if code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _SHOWN))
            raise InfrastructureError(f"the program for statistics ended with {code}: {errors.read()!r}")


class _Watchdog(Thread):
    """Kills the program at its deadline (`found` is `late`) or when its caller is gone (`gone`)."""

    def __init__(self, process: subprocess.Popen[bytes], is_gone: IsGone) -> None:
        super().__init__(name="statistics-watchdog")
        self._process = process
        self._is_gone = is_gone
        self._ends = monotonic() + TIME_S
        self._is_over = Event()
        self.found: Literal["late", "gone"] | None = None

    def run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            if self._is_gone():
                self.found = "gone"
            elif monotonic() >= self._ends:
                self.found = "late"
            if self.found is not None:
                self._process.kill()
                return

    def stop(self) -> None:
        """Stops the thread and joins it, after which it kills nothing."""
        self._is_over.set()
        self.join()


def _send(file: IO[bytes], job: Job, streams: Iterable[Iterable[bytes]]) -> None:
    with suppress(BrokenPipeError), file:  # the program has exited, and its exit code gives the reason
        lines.write(file, job, streams)


def _environment() -> dict[str, str]:
    """The path of our modules, and no secrets."""
    path = [str(Path(api.__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Each NumPy thread reserves its share of the memory limit, whether used or not.
    return {"PYTHONPATH": os.pathsep.join(path), "OPENBLAS_NUM_THREADS": "1"}
