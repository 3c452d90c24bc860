"""Tests of what `gradebox serve` shows in a terminal."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from gradebox.client import Client
from gradebox.service import console
from gradebox.service.console import Console
from gradebox.service.logs import LogSettings
from gradebox.service.tail import Tail
from tests.gradebox.conftest import ROOT, scored
from tests.waiting import eventually

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

HALF = "async def grade(thread): return 1 / (2 * len(thread.completion()))"


class Terminal:
    """Runs `gradebox serve` in a new terminal and collects its output."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
        environment |= {"XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm", "COLUMNS": "200"}
        command = [sys.executable, "-m", "gradebox", "serve", "--port", "0", "--workers", "1"]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(folder)], env=environment, cwd=ROOT, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = b""
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, ours: int) -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 4096):
                self.shown += part

    def url(self) -> str:
        eventually(lambda: b"to stop" in self.shown or self.process.poll() is not None)
        found = re.search(rb"ready at (http://\S+)", self.shown)
        assert found, self.shown
        return found[1].decode()

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 0
        self._reader.join()
        return re.sub(r"\x1b\[[0-9;]*m", "", self.shown.decode()).replace("\r\n", "\n")


def test_a_person_reads_a_line_for_each_batch_and_each_warning(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    url = terminal.url()
    with Client(url, (tmp_path / "api-key").read_text().strip()) as client:
        client.graders.create.function(key="half", fn=HALF)
        batch = scored(client, "half", [{"completion": "a"}] * 20 + [{"completion": ""}])
    shown = terminal.stop()
    time = r"\d\d:\d\d:\d\d  "
    assert re.search(rf"^{time}batch {batch.id} accepted: 21 completions for half@1$", shown, re.M), shown
    finished = rf"^{time}batch {batch.id} finished in [\d.]+ s, [\d,]+/s; mean half@1 0.5; errors: 1 exception$"
    assert re.search(finished, shown, re.M), shown
    assert re.search(rf"^{time}batch {batch.id}, half@1: all 20 scores are 0.5: a reward", shown, re.M), shown
    assert re.search(rf"^{time}stopped$", shown, re.M)
    assert "{" not in shown


def test_json_in_a_terminal_for_who_asks_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "configure", lambda *_: None)  # it configures the whole process
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    hints = [("API key", "in a file")]
    Console(LogSettings()).show(hints)
    assert "API key" in capsys.readouterr().err
    monkeypatch.setenv("GRADEBOX_LOG_FORMAT", "json")
    Console(LogSettings()).show(hints)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_what_is_passed_on_in_a_minute_has_a_bound(
    log_format: Literal["json", "text"],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "configure", lambda *_: None)  # it configures the whole process
    log = tmp_path / "api.log"
    shown = Console(LogSettings(log_format=log_format))
    shown.follow([Tail(log, 1_000_000)])
    request = {"level": "info", "event": "request", "role": "api"}
    log.write_text("".join(f"{json.dumps(request)}\n" for _ in range(500)))
    shown.look()
    assert capsys.readouterr().err == ""
    with log.open("a") as more:
        more.writelines(f"{json.dumps(request | {'level': 'warning'})}\n" for _ in range(500))
    shown.look()
    captured = capsys.readouterr()
    told = [line for line in captured.err.splitlines() if "request" in line]
    assert len(told) == console.LINES_A_MINUTE
    assert f"more than {console.LINES_A_MINUTE} log lines" in captured.err + caplog.text
