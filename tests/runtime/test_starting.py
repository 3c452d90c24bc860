"""Tests of the start of a process. Some run in a subprocess, because logging is set up for a whole process."""

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, MasterDownError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from structlog.testing import capture_logs

from runtime import starting
from runtime.errors import CannotStartYet
from storage.connection import is_away
from storage.settings import StorageSettings
from storage.store import open_store
from tests.conftest import redis_server

_STARTS = """
import sys
from sandbox.errors import IsolationUnavailable
from storage.errors import UnknownFormat
from runtime.starting import start
from worker.settings import WorkerSettings

for body in sys.argv[1:]:
    print(start("worker", lambda: exec(body)), flush=True)
"""
_ENDS = {
    "pass": (0, ""),
    "raise IsolationUnavailable('install bubblewrap')": (3, "no sandbox is safe here: install bubblewrap"),
    "raise UnknownFormat('a newer gradebox wrote this')": (4, "a newer gradebox wrote this"),
    "WorkerSettings(stop_s='soon')": (5, "GRADEBOX_STOP_S is invalid: Input should be a valid number"),
    "raise OSError('what nobody knows')": (None, "OSError"),
}


def test_the_exit_code_says_why_a_process_cannot_start() -> None:
    done = subprocess.run([sys.executable, "-c", _STARTS, *_ENDS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [str(code) for code, _ in _ENDS.values() if code is not None]
    assert all(said in done.stderr for _, said in _ENDS.values())


def opening(monkeypatch: pytest.MonkeyPatch, *answers: Exception | str) -> object:
    """The result of `wait_for` if opening the store has these results, one after another."""
    monkeypatch.setattr(starting, "REDIS_WAIT_S", 0.01)
    return starting.wait_for(Mock(side_effect=answers), is_away)


def test_what_cannot_be_opened_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away = RedisConnectionError("refused"), MasterDownError("down"), ReadOnlyError("read only")
    with capture_logs() as logged:
        assert opening(monkeypatch, *away, CannotStartYet("in use"), "the store") == "the store"
    assert [line["event"] for line in logged] == ["Redis cannot be used yet, trying again"]  # not once for each try


def test_a_redis_that_is_busy_with_a_long_script_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "REDIS_WAIT_S", 0.05)
    script = "local began = redis.call('TIME')[1] while redis.call('TIME')[1] - began < 3 do end"
    with redis_server(tmp_path) as url, Redis.from_url(url) as redis:
        redis.config_set("lua-time-limit", 50)
        busy = threading.Thread(target=redis.eval, args=(script, 0))
        busy.start()
        settings = StorageSettings(redis_url=url, data_dir=tmp_path / "data")
        time.sleep(0.3)
        with pytest.raises(ResponseError, match="BUSY"):
            open_store(settings)
        store = starting.wait_for(partial(open_store, settings), is_away)
        busy.join()
        assert store.redis.ping()
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            starting.wait_for(partial(store.redis.llen, "gradebox:format"), is_away)


def test_credentials_that_redis_refuses_end_a_service_that_somebody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = AuthenticationError("WRONGPASS")
    assert opening(monkeypatch, wrong, "the store") == "the store"
    monkeypatch.setenv("GRADEBOX_SUPERVISED", "7")
    with pytest.raises(starting.RedisRefuses, match="WRONGPASS: correct GRADEBOX_REDIS_URL"):
        opening(monkeypatch, wrong, "the store")
