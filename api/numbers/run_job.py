"""Runs jobs in forks of the program that computes statistics, within limits."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from tempfile import TemporaryFile, gettempdir
from threading import Event, Thread
from time import monotonic
from typing import IO, Literal, TypeAlias

from api.http.problems import too_large
from api.numbers import job_input
from api.numbers.jobs import DISK_FULL, OUT_OF_MEMORY, Job
from api.numbers.program_client import Computing, LoadedProgram
from sandbox.errors import InfrastructureError, Stopped

TIME_S = 60.0
_SHOWN = 2000  # bytes of the end of a failed fork's stderr that are reported
_LOOK_S = 0.2

IsGone: TypeAlias = Callable[[], bool]
"""Whether the caller no longer waits for the result. Any thread may call it."""

_program = LoadedProgram()


def run(job: Job, streams: Iterable[Iterable[bytes]], is_gone: IsGone) -> bytes:
    """Returns what a fork prints for a job and its streams of lines. Raises as `run_into` does."""
    with TemporaryFile() as result:
        run_into(result, job, streams, is_gone)
        result.seek(0)
        return result.read()


def run_into(result: IO[bytes], job: Job, streams: Iterable[Iterable[bytes]], is_gone: IsGone) -> None:
    """Runs a fork of the program with `result` as its standard output. The streams are forwarded block by block.

    Raises:
        ProblemError: it takes more than `TIME_S`, or more than 2 GiB of memory.
        Stopped: the caller no longer waits.
        OSError: the disk of the temporary folder is full.
        InfrastructureError: the program failed.
    """
    with TemporaryFile() as errors:
        with _forked(job, result, errors) as (stdin, computing):
            watchdog = _Watchdog(computing, is_gone)
            watchdog.start()
            try:
                _send(stdin, job, streams)
                code = computing.wait()
            finally:
                watchdog.stop()
        if code != 0 and watchdog.found == "gone":
            raise Stopped("the caller no longer waits for the statistics")
        if code != 0 and watchdog.found == "late":
            raise too_large(f"statistics of so many outcomes take more than {TIME_S:g} s: compare fewer at once")
        if code == OUT_OF_MEMORY:
            raise too_large("statistics of so many outcomes take more than 2 GiB of memory: compare fewer at once")
        if code == DISK_FULL:
            raise OSError(errno.ENOSPC, "the disk of the temporary folder is full: free some of it", gettempdir())
        if code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _SHOWN))
            ended = "was killed" if code is None else f"ended with {code}"
            raise InfrastructureError(f"the program for statistics {ended}: {errors.read()!r}")


class _Watchdog(Thread):
    """Kills a fork at its deadline (`found` is `late`) or when its caller is gone (`gone`)."""

    def __init__(self, computing: Computing, is_gone: IsGone) -> None:
        super().__init__(name="statistics-watchdog")
        self._computing = computing
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
                self._computing.kill()
                return

    def stop(self) -> None:
        """Stops the thread and joins it, after which it kills nothing."""
        self._is_over.set()
        self.join()


@contextmanager
def _forked(job: Job, result: IO[bytes], errors: IO[bytes]) -> Iterator[tuple[IO[bytes], Computing]]:
    """Yields the standard input of a new fork, and the fork, which is killed at the end."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stdin:
        try:
            forked = _program.fork(str(job.__struct_config__.tag), [reading, result.fileno(), errors.fileno()])
        finally:
            os.close(reading)
        with closing(forked):
            yield stdin, forked


def _send(file: IO[bytes], job: Job, streams: Iterable[Iterable[bytes]]) -> None:
    with suppress(BrokenPipeError), file:  # the fork has exited, and its exit code gives the reason
        job_input.write(file, job, streams)
