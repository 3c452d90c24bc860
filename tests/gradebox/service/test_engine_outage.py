"""Tests that a batch loses only time if the engine dies while it runs."""

import time
from functools import partial
from pathlib import Path

import pytest

from gradebox.client import BatchHandle
from tests.engine import engine
from tests.gradebox.conftest import serving
from tests.waiting import eventually

pytestmark = [pytest.mark.service, pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(400)]

_COUNT = 200
_SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.02)\n    return len(thread.completion())\n"


def test_batches_outlive_their_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine() as running:
        monkeypatch.setenv("DOCKER_HOST", running.host)
        with serving(tmp_path, "--backend", "docker", "--workers", "1") as service, service.client() as client:
            client.graders.create.function(key="slow", fn=_SLOW)
            for containers in (False, True):  # its containers live on, or die with it
                batch = client.batches.create("slow", [{"completion": "x" * (n % 50)} for n in range(_COUNT)])
                eventually(partial(_has_begun, batch), 60)
                running.kill(containers=containers)
                assert _done(batch) < _COUNT, "it was over before the engine died: this test shows nothing"
                time.sleep(3)
                assert service.process.poll() is None
                running.start()
                batch.wait(progress=False, timeout=120)
                outcomes = list(batch.outcomes())
                assert [outcome.index for outcome in outcomes] == list(range(_COUNT))
                assert [outcome.score for outcome in outcomes] == [float(n % 50) for n in range(_COUNT)]
                assert client.score("slow", [{"completion": "abc"}])[0].score == 3.0
        eventually(lambda: running.containers() == {}, 20)


def _has_begun(batch: BatchHandle) -> bool:
    return _done(batch) > 20


def _done(batch: BatchHandle) -> int:
    status = batch.refresh()
    return status.done + status.underway
