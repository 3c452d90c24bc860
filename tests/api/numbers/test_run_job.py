import errno
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from time import monotonic, sleep

import numpy as np
import pytest

from api.http.problems import ProblemError
from api.numbers import program_client, run_job
from api.numbers.jobs import SearchJob, SummaryJob
from api.numbers.program_client import LoadedProgram
from sandbox.errors import InfrastructureError, Stopped
from tests.api.numbers.computed import bounds


def outcome(index: int, score: float | None, grader: str = "g@1") -> bytes:
    return json.dumps({"index": index, "grader": grader, "score": score, "run_ms": 0.1}).encode() + b"\n"


def waits() -> bool:
    return False


def test_intervals_of_each_grader_are_of_its_scores_in_the_order_of_the_threads() -> None:
    scores = np.random.default_rng(5).random(200)
    lines = [
        line
        for index, score in enumerate(scores)
        for line in (outcome(index, score), outcome(index, None, "failed@1"), outcome(index, 1 - score, "other@2"))
    ]
    found = json.loads(run_job.run(SummaryJob(["g@1", "other@2", "failed@1"], 1000), [lines], waits))
    assert tuple(found[0]) == bounds(scores, 1000)
    assert tuple(found[1]) == bounds(1 - scores, 1000)
    assert found[2] is None


def program() -> int:
    """The pid of the program, which has been used."""
    running = run_job._program._process
    assert running is not None
    return running.pid


def forks(count: int) -> list[int]:
    """The pids of the program's forks, as soon as there are exactly so many."""
    children = Path(f"/proc/{program()}/task/{program()}/children")
    ends = monotonic() + 20
    while len(found := children.read_text().split()) != count:
        assert monotonic() < ends
        sleep(0.01)
    return [int(pid) for pid in found]


def descriptors(pid: int) -> set[str]:
    """What a process has open, except /dev/null, and its own library if libffi 3.5 has it open."""
    opened = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
    return {each for each in opened if each != "/dev/null" and "/libffi.so" not in each}


def one_job() -> None:
    """Runs a job that imports little, and checks its result."""
    threads, outcomes = b'{"completion": "a needle"}\n{"completion": "hay"}\n', outcome(0, 0.5) + outcome(1, 0.75)
    result = run_job.run(SearchJob("needle", [2], 10.0), [[outcomes], [threads]], waits)
    assert json.loads(result) == {"rows": [0], "searched": 2, "is_cut": False}


def endless() -> Iterator[bytes]:
    while True:
        yield outcome(0, 1.0) * 1000


def test_jobs_share_a_program_and_nothing_else() -> None:
    one_job()
    end = Event()

    def slow() -> Iterator[bytes]:
        yield outcome(0, 0.5)
        assert end.wait(20)
        yield outcome(1, 0.75)

    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(run_job.run, SummaryJob(["g@1"], 10), [slow()], waits) for _ in range(2)]
        try:
            forks(2)
            sleep(0.2)  # both read, and those of earlier jobs have exited
            a, b = forks(2)
            assert not descriptors(a) & descriptors(b)
            # The program's standard error is that of this process, which logs it.
            assert not (descriptors(a) | descriptors(b)) & descriptors(program())
        finally:
            end.set()
        assert len({run.result() for run in runs}) == 1


def test_a_fork_that_is_killed_is_an_error_and_the_next_job_runs() -> None:
    one_job()
    of = program()

    def killed() -> Iterator[bytes]:
        yield outcome(0, 0.5)
        os.kill(forks(1)[0], signal.SIGKILL)
        yield outcome(1, 0.75)

    with pytest.raises(InfrastructureError, match="was killed"):
        run_job.run(SummaryJob(["g@1"], 10), [killed()], waits)
    one_job()
    assert program() == of


@pytest.mark.parametrize("disk", [1], indirect=True)
def test_a_full_disk_of_the_temporary_folder_is_told(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with pytest.raises(OSError, match="the disk of the temporary folder is full") as full:
        one_job()
    assert (full.value.errno, full.value.filename) == (errno.ENOSPC, str(disk))


def test_a_program_that_is_killed_is_started_again() -> None:
    one_job()
    of = program()
    os.kill(of, signal.SIGKILL)
    os.waitid(os.P_PID, of, os.WEXITED | os.WNOWAIT)
    one_job()
    assert program() != of


def test_the_program_ends_with_its_caller() -> None:
    program = LoadedProgram()
    with TemporaryFile() as file:
        program.fork("index", [file.fileno()] * 3).close()
    assert program._jobs is not None
    assert program._process is not None
    program._jobs.close()
    assert program._process.wait(20) == 0


def test_a_program_without_jobs_ends_and_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = "from api.numbers.job_program import main; main(idle_s=0.5)"
    monkeypatch.setattr(program_client, "_COMMAND", [sys.executable, "-P", "-c", idle])
    monkeypatch.setattr(run_job, "_program", LoadedProgram())
    one_job()
    first = run_job._program._process
    assert first is not None and first.wait(20) == 0
    one_job()


def test_a_program_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_client, "_COMMAND", [sys.executable, "-c", "raise SystemExit(3)"])
    monkeypatch.setattr(run_job, "_program", LoadedProgram())
    with pytest.raises(InfrastructureError, match="ended as it started"):
        one_job()


def test_a_program_that_hangs_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one_job()
    monkeypatch.setattr(program_client, "_START_S", 0.5)
    os.kill(program(), signal.SIGSTOP)
    with pytest.raises(InfrastructureError, match="made no fork"):
        one_job()
    monkeypatch.setattr(program_client, "_START_S", 20.0)
    one_job()


def test_what_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_job, "TIME_S", 1.0)
    with pytest.raises(ProblemError, match="more than 1 s") as caught:
        run_job.run(SummaryJob(["g@1"], 1000), [endless()], waits)
    assert caught.value.status == 413


def test_what_nobody_waits_for_is_stopped() -> None:
    began = monotonic()
    with pytest.raises(Stopped, match="no longer waits"):
        run_job.run(SummaryJob(["g@1"], 1000), [endless()], lambda: monotonic() > began + 0.2)


def test_a_line_that_is_no_outcome_is_a_fault_of_ours_and_says_so() -> None:
    with pytest.raises(InfrastructureError, match="ValidationError"):
        run_job.run(SummaryJob(["g@1"], 1000), [[b"[]\n"]], waits)


def test_what_reads_the_outcomes_may_fail() -> None:
    def fails() -> Iterator[bytes]:
        yield outcome(0, 1.0)
        raise OSError("the spool is away")

    with pytest.raises(OSError, match="spool is away"):
        run_job.run(SummaryJob(["g@1"], 1000), [fails()], waits)
