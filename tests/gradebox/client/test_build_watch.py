"""Tests of waiting for the build of an environment."""

import time

import httpx
import pytest

from gradebox.client._sync.environments import Environments
from gradebox.client._sync.transport import Transport
from gradebox.client.build_watch import BuildWatch
from gradebox.client.rules import Rules
from gradebox.errors import BuildTimeout
from gradebox.schemas import Environment

BUILDING = {
    "project": "default",
    "key": "math",
    "build": 1,
    "state": "building",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}


def test_a_service_that_stalls_at_the_end_of_the_wait_is_a_timeout() -> None:
    waits = list[float]()

    def handler(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        if len(waits) == 1:
            return httpx.Response(200, json=BUILDING)
        time.sleep(0.05)
        raise httpx.ReadTimeout("")

    transport = Transport(Rules("http://127.0.0.1:8000", "k", 30.0), httpx.MockTransport(handler))
    with pytest.raises(BuildTimeout, match=r"math@1 was not built within 0\.05 s"):
        Environments(transport, "default").wait("math", progress=False, timeout=0.05)
    assert waits == pytest.approx([1.05, 1.05], abs=0.05)


def test_a_step_that_would_move_the_cursor_is_shown_in_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    newest = {"number": 1, "state": "building", "packages": [], "created_at": "2026-01-01T00:00:00Z"}
    builds = [{**newest, "step": "\x1b[2Junpacking"}]
    BuildWatch(progress=True, timeout=None).observe(Environment.model_validate({**BUILDING, "builds": builds}))
    assert capsys.readouterr().err == "environment math@1: \\x1b[2Junpacking (0 s)\n"
