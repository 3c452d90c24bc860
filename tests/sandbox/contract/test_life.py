"""Tests that a sandbox starts, serves, and ends with all its processes."""

import json
import os
import select
import signal
import socket
import threading

import pytest

from gradebox.schemas import Isolation
from sandbox.errors import InfrastructureError
from sandbox.grading.channel import Ended
from sandbox.grading.session import Session
from sandbox.hostile.watched import Watched
from tests.processes import runs
from tests.sandbox.contract.conftest import Grader, started
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox

_STUBBORN = """
import os, signal, time
for number in range(6):
    if not os.fork():
        os.setsid()
        for one in range(1, 60):
            try: signal.signal(one, signal.SIG_IGN)
            except (OSError, ValueError): pass
        time.sleep(60)
while True: pass
"""


@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_one_that_made_itself_ready_meanwhile_says_nothing_and_serves(isolation: Isolation, session: Session) -> None:
    session.await_ready()
    ended, _, _ = select.select([session.sandbox.channel], [], [], 1.0)
    assert not ended
    grader = Grader(session).load(isolation=isolation)
    assert [outcome.score for outcome in grader.score("answer = 1", "answer = 2")] == [1.0, 1.0]


def test_its_end_kills_everything_inside_and_may_come_twice(backend: Watched) -> None:
    with started(backend) as session:
        Grader(session).load(timeout_s=60.0)
        ending = threading.Timer(0.5, session.sandbox.end)
        ending.start()
        with pytest.raises(Ended):
            list(session.grade(json.dumps({"completion": _STUBBORN}).encode(), 1))
        ending.join()
    eventually(lambda: backend.left() == [], 8.0)


def test_one_whose_host_goes_away_ends_by_itself(backend: Watched) -> None:
    """A killed service cannot end its sandboxes. They end because its sockets are closed."""
    with started(backend) as session:
        session.await_ready()
        session.sandbox.channel.shutdown(socket.SHUT_RDWR)
        eventually(lambda: not runs(session.sandbox.pid), 8.0)


def test_one_that_is_killed_from_outside_is_told_so(grader: Grader) -> None:
    os.kill(grader.session.sandbox.pid, signal.SIGKILL)
    with pytest.raises(Ended, match="the sandbox"):
        list(grader.session.grade(b'{"completion": ""}\n', 1))


def test_what_was_ended_does_not_start_again(backend: Watched) -> None:
    session = Session(backend.start())
    session.end()
    with pytest.raises(InfrastructureError, match="did not start"):
        session.await_ready()
