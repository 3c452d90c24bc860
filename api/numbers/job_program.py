"""The program: forks a process for each job. Its standard input is a socket, on which messages ask for forks.

A message is the kind of a job, with four descriptors: the fork's standard input, output and error, and a socket, on
which the fork sends a pidfd of itself, and at its end its exit code as one byte. The program ends when the other end
of its standard input is closed.

A fork reads a job and streams of lines, and prints the result as JSON, or an index. Each kind of job has its own
imports, which the program does once, before its first fork of that kind. It receives nothing else of a job, so a job
finds in its memory nothing of others.
"""

import errno
import os
import resource
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import IO

from api.numbers.job_input import read_blocks, read_job, read_lines
from api.numbers.jobs import (
    DISK_FULL,
    OUT_OF_MEMORY,
    AgreementJob,
    CombinedJob,
    ComparisonJob,
    IndexJob,
    SearchJob,
    SummaryJob,
)

_MEMORY_BYTES = 2 << 30
_TIME_S = 90  # of CPU time; the caller's timeout is shorter
_DESCRIPTORS = 4
_IDLE_S = 600.0


def result(file: IO[bytes]) -> bytes:
    """Runs the job in the file and returns its result."""
    job = read_job(file)
    match job:
        case SummaryJob():
            from api.numbers import summary_job

            return summary_job.run(job, read_lines(file))
        case CombinedJob():
            from api.numbers import combined_job

            return combined_job.run(job, read_blocks(file))
        case ComparisonJob():
            from api.numbers import comparison_job, outcome_column

            a, b = (outcome_column.read(read_lines(file), side.grader) for side in (job.a, job.b))
            return comparison_job.run(job, a, b).model_dump_json().encode()
        case AgreementJob():
            from api.numbers import agreement_job

            return agreement_job.run(job, read_lines(file), read_lines(file)).model_dump_json().encode()
        case IndexJob():
            from api.numbers import index_job

            return index_job.run(job, read_blocks(file), read_blocks(file))
        case SearchJob():
            from api.numbers import search_job

            return search_job.run(job, (read_blocks(file) for _ in range(2 * len(job.chunks))))


def _compute(passed: list[int]) -> int:
    """Runs the job on the passed standard input. Returns the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIME_S, _TIME_S))
    os.nice(5)  # requests that wait for a score have priority
    for standard, descriptor in enumerate(passed[:3]):
        os.dup2(descriptor, standard)
    try:
        found = result(sys.stdin.buffer)
        sys.stdout.buffer.write(found)
        sys.stdout.buffer.flush()
    except MemoryError:
        return OUT_OF_MEMORY
    except OSError as error:
        if error.errno != errno.ENOSPC:
            traceback.print_exc()
            return 1
        return DISK_FULL  # the traceback would not fit either
    except BaseException:  # noqa: BLE001  # the caller reports it
        traceback.print_exc()
        return 1
    return 0


def _fork(jobs: socket.socket, passed: list[int]) -> None:
    if os.fork():
        return
    try:
        jobs.close()  # a job must not receive those of others
        with socket.socket(fileno=passed[-1]) as caller:
            own = os.pidfd_open(os.getpid())
            socket.send_fds(caller, [b"."], [own])
            os.close(own)
            caller.send(bytes([_compute(passed)]))
    finally:
        os._exit(0)


def main(idle_s: float = _IDLE_S) -> None:
    """Forks until the other end of standard input is closed, or no message has come for `idle_s`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets forks that have exited
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to this process, too; the caller ends it
    with socket.socket(fileno=os.dup(0)) as jobs, suppress(TimeoutError):
        jobs.settimeout(idle_s)
        while True:
            kind, passed, _, _ = socket.recv_fds(jobs, 64, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if not kind:
                return
            import_module(f"api.numbers.{kind.decode()}_job")
            _fork(jobs, passed)
            for descriptor in passed:
                os.close(descriptor)


if __name__ == "__main__":
    main()
