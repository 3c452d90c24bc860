"""Tests of the start of a worker process."""

import os
import socket
import subprocess
import sys

import httpx
import pytest

from storage.settings import StorageSettings
from storage.store import Store
from tests.waiting import eventually
from tests.worker.conftest import ROOT, over, submit, workers
from worker.dispatch import Dispatch

HALF = "async def grade(thread):\n    return 0.5\n"


@pytest.mark.sandbox
def test_a_worker_stands_back_behind_the_api_and_serves_what_it_has_done_on_the_port_that_it_is_given(
    store: Store, dispatch: Dispatch, storage_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
        monkeypatch.setenv("GRADEBOX_METRICS_PORT", str(port))
        refused = subprocess.run(
            [sys.executable, "-m", "worker"], env=os.environ, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert refused.returncode == 5
        assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in refused.stderr
    with workers(store, storage_settings) as start:
        worker = start()
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
        over(store, submit(store, dispatch, 1500, HALF))

        def told() -> str:
            return httpx.get(f"http://127.0.0.1:{port}/metrics").text

        # The metrics count a batch a moment after its end.
        eventually(lambda: '\ngradebox_batches_ended_total{state="finished"} 1.0\n' in told(), 10)
        assert '\ngradebox_completions_total{grader="g1500",outcome="scored",project="default"} 1500.0\n' in told()
        assert '\ngradebox_sandboxes_ended_total{role="worker",why="crash"} 0.0\n' in told()
        eventually(lambda: store.processes.workers() != [], 10)
        worker.terminate()
        assert worker.wait(20) == 0
        assert store.processes.workers() == []
