import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradebox.service.process import ServiceProcess
from tests.waiting import eventually

Spawn = Callable[[str], ServiceProcess]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    processes = list[ServiceProcess]()

    def start(code: str) -> ServiceProcess:
        (tmp_path / "logs").mkdir(exist_ok=True)
        process = ServiceProcess(
            "worker-1", [sys.executable, "-c", code], dict(os.environ), tmp_path / "logs" / "w.log", 1.0
        )
        process.start()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()


def test_a_process_that_dies_is_told_of_and_started_again(spawn: Spawn) -> None:
    process = spawn("print('no room'); raise SystemExit(7)")
    eventually(lambda: process.exit_code is not None)

    line = process.tend()

    assert line is not None
    assert line.startswith("worker-1 ended with exit code 7 and starts again in 0.5 s; no room (see ")
    assert process.tend() is None
    eventually(lambda: process.tend() is None and process.running)
    assert process.deaths == 1


@pytest.mark.parametrize("disk", [2], indirect=True)
def test_a_full_disk_is_the_reason_of_what_cannot_log_one(disk: Path) -> None:
    (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    process = ServiceProcess("redis", [sys.executable, "-c", "exit(1)"], dict(os.environ), disk / "redis.log", 1.0)
    process.start()
    eventually(lambda: process.exit_code is not None)
    assert f"the disk of {disk} is full: free some of it" in (process.tend() or "")


def test_what_redis_logs_as_a_note_is_no_reason(tmp_path: Path) -> None:
    command = ["redis-server", "--port", "0", "--unixsocket", str(tmp_path / "redis.sock"), "--dir", str(tmp_path)]
    process = ServiceProcess("redis", command, dict(os.environ), tmp_path / "redis.log", 1.0)
    process.start()
    eventually(lambda: "accept connections" in process.output())
    process.kill()
    assert "was ended by SIGKILL and starts again in 0.5 s; it did not say why (" in (process.tend() or "")
    process = ServiceProcess("redis", [*command, "--port", "many"], dict(os.environ), tmp_path / "redis.log", 1.0)
    process.start()
    eventually(lambda: process.exit_code is not None)
    assert process.exit_reason() != "it did not say why"


def test_what_dies_again_and_again_is_started_less_and_less_often(spawn: Spawn) -> None:
    process = spawn("raise SystemExit(1)")
    lines = list[str]()

    def died_three_times() -> bool:
        lines.extend(filter(None, [process.tend()]))
        return len(lines) == 3

    eventually(died_three_times)
    assert [line.split(" in ")[1].split(" s;")[0] for line in lines] == ["0.5", "1", "2"]


def test_a_process_is_asked_to_stop(spawn: Spawn) -> None:
    process = spawn("import time; time.sleep(60)")
    process.ask_to_stop()
    eventually(lambda: not process.running)
    assert process.exit_code == -signal.SIGTERM


def test_ctrl_c_reaches_it_only_through_the_service(spawn: Spawn) -> None:
    process = spawn("import os; print(os.getpgid(0) == os.getpid(), flush=True); import time; time.sleep(60)")
    eventually(lambda: process.output() == "True")


def test_the_log_of_an_earlier_run_is_not_taken_for_its_own(spawn: Spawn) -> None:
    first = spawn("print('first')")
    eventually(lambda: first.output() == "first")
    second = spawn("print('second')")
    eventually(lambda: second.output() == "second")
    assert second.exit_reason() == "second"
    assert second.log.read_text() == "first\nsecond\n"


def test_what_a_process_waits_for_is_its_last_warning(spawn: Spawn) -> None:
    line = '{"level": "warning", "event": "Redis does not answer", "error": "refused"}'
    warns = spawn(f"print({line!r}, flush=True); import time; time.sleep(60)")
    eventually(lambda: warns.output() != "")
    assert warns.warning() == "Redis does not answer: refused"
    is_well = spawn("""print('{"level": "info", "event": "waiting"}', flush=True); import time; time.sleep(60)""")
    eventually(lambda: is_well.output() != "")
    assert is_well.warning() is None
    says_nothing = spawn("import time; time.sleep(60)")
    assert says_nothing.warning() is None
