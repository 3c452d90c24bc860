import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sandbox.limits import MIB
from tests.processes import runs
from tests.waiting import eventually
from worker.environments import uv
from worker.environments.settings import EnvironmentSettings

RESOLVES = """
import sys
from pathlib import Path
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import Uv
Uv(Path(sys.argv[1]), EnvironmentSettings(environments_index=sys.argv[2]), 64).resolve(["six"], lambda: None)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_uv_that_is_killed_is_run_once_more(
    number: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/runs\n[ $(wc -l < {tmp_path}/runs) -gt {times} ] || kill -{number} $$"
    )
    program.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(program))
    made = uv.Uv(tmp_path, EnvironmentSettings(), 64)
    half = tmp_path / "target" / "half"
    half.mkdir(parents=True)
    with pytest.raises(uv.BuildFailed, match=f"uv ended with -{number}") if times > 1 else nullcontext():
        made.install([], tmp_path / "target", lambda: None)
    assert (tmp_path / "runs").read_text() == "\n" * (2 if times > 1 else 3)  # a whole installation has two runs
    assert not half.exists()


@pytest.mark.parametrize("name", ["alpha", "nvidia-alpha"])
def test_wheels_that_are_too_large_together_are_not_downloaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, lock = tmp_path / "uv", tmp_path / "lock"
    program.write_text(f'#!/bin/sh\ncp {lock} "$6"')  # after `--output-file`
    program.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(program))
    digest = f'hashes = {{ sha256 = "{"0" * 64}" }}'
    # Of the wheels of a package, one is installed: the least counts. An index may tell no sizes.
    wheels = {
        "small": f"{{ size = {MIB}, {digest} }}",
        name: f"{{ size = {5 * MIB}, {digest} }}, {{ size = {4 * MIB}, {digest} }}",
        "beta": f"{{ size = {3 * MIB}, {digest} }}",
        "gamma": f"{{ size = {2 * MIB}, {digest} }}",
        "unknown": f"{{ {digest} }}",
    }
    lock.write_text("".join(f'[[packages]]\nname="{n}"\nversion="1"\nwheels=[{each}]\n' for n, each in wheels.items()))
    assert len(uv.Uv(tmp_path, EnvironmentSettings(), 10).resolve([name], lambda: None)) == 5
    largest = rf"are {name} \(4 MiB\), beta \(3 MiB\), gamma \(2 MiB\)"
    with pytest.raises(uv.BuildFailed, match=f"have 10 MiB, .* the 9 MiB .* {largest}") as failed:
        uv.Uv(tmp_path, EnvironmentSettings(), 9).resolve([name], lambda: None)
    assert ("UV_TORCH_BACKEND=cpu" in str(failed.value)) == (name == "nvidia-alpha")


def test_a_killed_worker_leaves_no_uv(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:  # it accepts, and never answers
        index.settimeout(30)
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        worker = subprocess.Popen([sys.executable, "-c", RESOLVES, tmp_path, url])
        with index.accept()[0]:
            children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
            assert len(children) == 1
            worker.kill()
            worker.wait()
            eventually(lambda: not runs(int(children[0])), 2.0)


def test_an_index_that_stops_talking_is_named_in_the_log_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with ThreadPoolExecutor() as own, socket.create_server(("127.0.0.1", 0)) as index, capture_logs() as logged:
        place = f"127.0.0.1:{index.getsockname()[1]}"
        made = uv.Uv(tmp_path, EnvironmentSettings(environments_index=f"http://me:secret@{place}/simple"), 64)
        building = own.submit(made.resolve, ["six"], lambda: None)
        with index.accept()[0], pytest.raises(uv.BuildFailed, match="The package index did not answer") as failed:
            building.result(20)
    assert place not in str(failed.value)
    assert [place in one["printed"] for one in logged] == [True]
    assert "secret" not in f"{failed.value} {logged}"
