"""The program that computes statistics, which runs between jobs too, because importing SciPy takes most of a second."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock

import api
from sandbox.errors import InfrastructureError

_COMMAND = [sys.executable, "-P", "-m", "api.numbers.job_program"]  # -P: do not import modules from the working folder
_START_S = 20.0  # others wait for their fork meanwhile


class Computing:
    """A fork of the program, which computes one job."""

    def __init__(self, channel: socket.socket, pidfd: int) -> None:
        self._channel = channel
        self._pidfd = pidfd

    def kill(self) -> None:
        """Kills it. No effect if it has exited."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self) -> int | None:
        """Waits for its exit and returns its exit code; None if it was killed."""
        code = self._channel.recv(1)
        return code[0] if code else None

    def close(self) -> None:
        """Kills it, and closes what this process has open for it."""
        self.kill()
        os.close(self._pidfd)
        self._channel.close()


class LoadedProgram:
    """The program. It starts with the first job, ends when no job has come for minutes, and starts again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, kind: str, streams: Sequence[int]) -> Computing:
        """Forks it for a job.

        Args:
            kind: the tag of the job, such as `summary`.
            streams: descriptors of the fork's standard input, output and error.

        Raises:
            InfrastructureError: it was not forked.
        """
        with self._lock:
            if self._jobs is not None:
                with suppress(ConnectionError):  # it has ended: no job came for minutes, or it was killed
                    return self._fork(self._jobs, kind, streams)
            try:
                return self._fork(self._start(), kind, streams)
            except ConnectionError as error:
                raise InfrastructureError("the program for statistics ended as it started: see the log") from error

    def _fork(self, jobs: socket.socket, kind: str, streams: Sequence[int]) -> Computing:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ExitStack() as failing:
            failing.callback(ours.close)
            with theirs:
                socket.send_fds(jobs, [kind.encode()], [*streams, theirs.fileno()])
            ours.settimeout(_START_S)
            try:
                _, found, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError as error:
                self._end()
                raise InfrastructureError(f"the program for statistics made no fork in {_START_S:g} s") from error
            if not found:
                raise ConnectionResetError("the program for statistics ended")
            ours.settimeout(None)
            failing.pop_all()
        return Computing(ours, found[0])

    def _start(self) -> socket.socket:
        self._end()
        self._jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                _COMMAND, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=_environment()
            )
        return self._jobs

    def _end(self) -> None:
        if self._jobs is not None:
            self._jobs.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._jobs = self._process = None


def _environment() -> dict[str, str]:
    """The path of our modules, and no secrets."""
    path = [str(Path(api.__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Each NumPy thread reserves its share of the memory limit, whether used or not.
    return {"PYTHONPATH": os.pathsep.join(path), "OPENBLAS_NUM_THREADS": "1"}
