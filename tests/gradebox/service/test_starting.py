"""Tests of what `serve` waits for during its start."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradebox.errors import CannotServe
from gradebox.service import serve, server_programs
from gradebox.service.console import Console
from gradebox.service.logs import LogSettings
from gradebox.service.process import ServiceProcess


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ServiceProcess]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = ServiceProcess("api", command, dict(os.environ), tmp_path / "api.log", 1.0)
    yield process
    process.kill()


@pytest.mark.parametrize("code", [3, 4, 5])
def test_a_process_that_cannot_start_here_is_not_tried_again(tmp_path: Path, code: int) -> None:
    command = [sys.executable, "-c", f"print('no sandbox is safe'); raise SystemExit({code})"]
    process = ServiceProcess("api", command, dict(os.environ), tmp_path / "api.log", 1.0)
    with pytest.raises(CannotServe, match=r"^no sandbox is safe$"):
        start(process, ready_after_s=60, occupied_for_s=0)
    assert process.deaths == 0


def test_another_system_than_linux_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(CannotServe, match=r"needs Linux, and this is Darwin: .*GRADEBOX_URL"):
        server_programs.environment({})


def start(api: ServiceProcess, *, ready_after_s: float, occupied_for_s: float) -> None:
    began = time.monotonic()
    serve._start(
        [api],
        lambda: time.monotonic() - began > ready_after_s,
        occupied=lambda: time.monotonic() - began < occupied_for_s,
        signals=serve.Signals(),
        console=Console(LogSettings()),
    )


def test_what_does_not_get_ready_in_time_is_given_up(api: ServiceProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "READY_S", 0.3)
    with pytest.raises(CannotServe, match=r"api did not become ready within 0\.3 s"):
        start(api, ready_after_s=5, occupied_for_s=0)


def test_a_redis_that_brings_old_data_up_to_date_is_waited_for(
    api: ServiceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "READY_S", 0.3)
    start(api, ready_after_s=1.3, occupied_for_s=1.2)
