"""Tests of `gradebox serve`, started as users start it."""

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from redis import Redis

from gradebox import GraderWarning
from gradebox.service.serve import FINAL
from tests.gradebox.conftest import ROOT, Service, serving
from tests.processes import runs
from tests.waiting import eventually

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SLOW = """
import time

async def grade(thread):
    time.sleep(0.01)
    return float(thread.completion())
"""
STARTS = """
import time

async def grade(thread: StringThread) -> float:
    began = time.time()
    time.sleep(0.5)
    return began
"""
STOPPING = "stopping: unfinished chunks are kept for the next start"
HALF = "async def grade(thread): return 0.5"
HEARS = """
import os, signal, threading, time
from gradebox.service.serve import Signals

signals = Signals()
started = time.monotonic()
signals.wait(0.2)
assert 0.2 <= time.monotonic() - started < 5, "nothing came, and it did not wait"
os.kill(os.getpid(), signal.SIGTERM)
signals.wait(60)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
signals.wait(60)
assert signals.count == 2
assert time.monotonic() - started < 30, "it slept on"
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two workers whose processes tests kill. Its folder has the metrics of a worker of an earlier
    start, and is open to others before it starts.
    """
    folder = tmp_path_factory.mktemp("two")
    (folder / "data").mkdir(mode=0o755)
    (folder / "data" / "metrics").mkdir()
    (folder / "data" / "metrics" / "worker-9.prom").write_text("gradebox_batches_ended_total 4\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])  # workers must not listen there
        with serving(folder, "--workers", "2", metrics_port=port) as service:
            with service.client() as client:
                client.graders.create.function(key="half", fn=HALF)
            yield service


def family(pid: int) -> dict[int, str]:
    """The child processes of this one, with their command lines."""
    found = dict[int, str]()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError):  # the process has ended
            found[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def one(pid: int, part: str) -> int:
    return next(child for child, command in family(pid).items() if part in command)


def kill(service: Service, part: str) -> None:
    """Kills a child of the service, and waits until there is another and the service is ready."""
    victim, before = one(service.process.pid, part), len(family(service.process.pid))
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(family(service.process.pid).keys() - {victim}) == before and ready(service))


def ready(service: Service) -> bool:
    try:
        return httpx.get(f"{service.url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def refused(folder: Path, *arguments: str, path: str | None = None, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gradebox", "serve", "--data-dir", str(folder), "--workers", "1", *arguments],
        env=os.environ | {"XDG_STATE_HOME": str(folder / "state")} | ({"PATH": path} if path else {}) | settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_ends_with_all_its_processes_and_what_it_keeps_is_there_at_the_next_start(
    tmp_path: Path, redis: Redis, redis_url: str
) -> None:
    """With a Redis of one's own. The first end is in order, and at the second a second signal stops it at once."""
    with serving(tmp_path, "--workers", "1", "--redis-url", redis_url) as first, first.client() as client:
        assert ready(first)
        note = Path(first.environment["XDG_STATE_HOME"], "gradebox", "services", f"{httpx.URL(first.url).port}.json")
        assert json.loads(note.read_text()) == {"url": first.url, "data_dir": str(first.data_dir)}
        children = family(first.process.pid)
        assert len(children) == 2  # no Redis
        key = first.key
        client.graders.create.function(key="half", fn=HALF)
        client.batches.create("half", [{"completion": "of a tenant"}]).wait(progress=False, timeout=30)

        first.process.send_signal(signal.SIGTERM)

        assert first.process.wait(30) == 0
        assert not any(runs(child) for child in children)
        assert not note.exists()
        events = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
        assert {event["level"] for event in events} == {"info"}
        assert [event["event"] for event in events if event["role"] == "serve"] == ["starting", STOPPING, "stopped"]

    with serving(tmp_path, "--workers", "1", "--redis-url", redis_url) as second, second.client() as client:
        assert second.key == key
        assert [outcome.score for outcome in client.score("half", [{"completion": "a"}])] == [0.5]
        children = family(second.process.pid)
        os.kill(one(second.process.pid, "-m api"), signal.SIGSTOP)  # the API will not stop on request
        second.process.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        assert second.process.poll() is None
        second.process.send_signal(signal.SIGTERM)

        assert second.process.wait(5) == 0
        assert not any(runs(child) for child in children)


def test_redis_starts_again_while_the_others_start_and_a_signal_stops_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gradebox", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )

    def children(part: str) -> set[int]:
        return {child for child, command in family(process.pid).items() if part in command}

    eventually(lambda: children("-m api"), 60)
    (victim,) = children("redis-server")
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: children("redis-server") - {victim}, 20)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


def test_one_address_tells_the_metrics_of_all_workers(two: Service) -> None:
    accepted = "gradebox_batches_accepted_total"

    def samples() -> dict[str, float]:
        lines = httpx.get(f"{two.url}/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def scored() -> float:
        return sum(value for series, value in samples().items() if series.startswith("gradebox_completions_total"))

    before = scored()
    with two.client() as client:
        client.batches.create("half", [{"completion": "a"}] * 1500).wait(progress=False, timeout=30)
    eventually(lambda: scored() == before + 1500, 60, every_s=0.5)
    for worker in ("worker-1", "worker-2"):
        assert f'gradebox_batches_ended_total{{state="finished",worker="{worker}"}}' in samples()
    assert 'gradebox_batches_ended_total{worker="worker-9"}' not in samples()
    assert samples()[accepted] >= 1
    kill(two, "-m api")
    assert scored() == before + 1500  # the workers keep their counts
    assert samples()[accepted] == 0


def test_a_small_batch_of_a_slow_grader_is_shared_by_the_workers(two: Service) -> None:
    with two.client() as client:
        with pytest.warns(GraderWarning, match="the same score"):
            client.graders.create.function(key="slow-start", fn=STARTS)
        batch = client.batches.create("slow-start", [{"completion": str(number)} for number in range(12)])
        starts = sorted(reward or 0.0 for reward in batch.rewards())
    assert len(set(starts)) == 12
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) < 0.5  # two at a time


def test_what_it_keeps_is_closed_to_others(two: Service) -> None:
    with two.client() as client:
        client.batches.create("half", [{"completion": "of a tenant"}]).wait(progress=False, timeout=30)
    made = [path for path in two.data_dir.rglob("*") if not path.is_socket()]
    for part in ("api-key", "payloads", "outcomes", "appendonlydir"):
        assert any(part in path.parts for path in made)
    assert [path for path in made if path.stat().st_mode & 0o077] == []


@pytest.mark.slow
def test_processes_killed_in_the_middle_of_a_batch_lose_nothing_and_score_nothing_twice(two: Service) -> None:
    threads = [{"id": f"t{number}", "completion": str(number)} for number in range(4_000)]
    with two.client() as client:
        client.graders.create.function(key="slow", fn=SLOW)
        batch = client.batches.create("slow", threads)
        eventually(lambda: batch.refresh().done >= 300, 60)
        for part in ("-m worker", "redis-server", "-m api"):
            assert batch.refresh().state == "running"
            kill(two, part)
        batch.wait(progress=False, timeout=120)

        found = list(batch.outcomes())
        assert [(each.index, each.id, each.score) for each in found] == [(n, f"t{n}", n) for n in range(4_000)]
        assert (batch.status.done, batch.status.scored, batch.status.errors) == (4_000, 4_000, {})
        assert batch.summary[0].mean == pytest.approx(1_999.5)
        assert [outcome.score for outcome in client.score("half", [{"completion": "a"}])] == [0.5]
    said = (two.data_dir.parent / "stderr").read_text()
    for name in ("worker-1", "redis", "api"):
        assert f"{name} was ended by SIGKILL and starts again" in said
    files = [file.name for file in (two.data_dir / "spool" / "outcomes" / batch.id).iterdir()]
    assert len(files) == len({name.partition("-")[0] for name in files})  # one file for each chunk

    children = family(two.process.pid)
    two.process.kill()  # so this is the last test of `two`
    eventually(lambda: not any(runs(child) for child in children), 60)


def test_a_signal_is_heard_while_it_waits_and_before() -> None:
    subprocess.run([sys.executable, "-c", HEARS], cwd=ROOT, check=True, timeout=150)


def test_an_object_store_without_credentials_is_refused(redis_url: str) -> None:
    nobody = dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/nowhere")
    nobody["AWS_EC2_METADATA_DISABLED"] = "true"
    own = {"GRADEBOX_REDIS_URL": redis_url, "GRADEBOX_SPOOL_URL": "s3://x/y", "GRADEBOX_SUPERVISED": str(os.getpid())}
    environment = os.environ | nobody | own
    api = subprocess.run([sys.executable, "-m", "api"], env=environment, cwd=ROOT, stderr=subprocess.PIPE, timeout=60)
    assert api.returncode in FINAL
    assert b"the spool cannot be written: x/y refuses it: give credentials that may write there" in api.stderr


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in refused(tmp_path, "--port", str(port))


def test_without_a_safe_sandbox_it_does_not_start_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("redis-server", "setpriv"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or "")

    said = refused(tmp_path / "data", "--port", "0", "--backend", "bubblewrap", path=str(tmp_path / "bin"))

    assert "apt-get install bubblewrap" in said


def test_without_redis_it_says_how_to_get_it(tmp_path: Path) -> None:
    assert "apt-get install redis-server" in refused(tmp_path, "--port", "0", path="/nowhere")


def test_a_wrong_setting_is_named_and_ends_the_start(tmp_path: Path) -> None:
    said = refused(tmp_path, "--port", "0", GRADEBOX_LOG_LEVEL="loud")
    assert "GRADEBOX_LOG_LEVEL is invalid: Input should be 'debug', 'info', 'warning' or" in said
