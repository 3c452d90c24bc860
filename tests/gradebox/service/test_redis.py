import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from gradebox.service.data_folder import DataFolder, hold
from gradebox.service.redis import redis_answers, redis_is_occupied, redis_process, redis_url
from tests.gradebox.conftest import ROOT
from tests.waiting import eventually


@contextmanager
def running(path: Path) -> Iterator[tuple[DataFolder, "redis.Redis"]]:
    with hold(path) as folder:
        child = redis_process(folder)
        child.start()
        try:
            eventually(lambda: redis_answers(folder), 10)
            with redis.Redis.from_url(redis_url(folder), decode_responses=True) as connection:
                yield folder, connection
        finally:
            child.ask_to_stop()
            while child.running:
                time.sleep(0.01)


def test_what_was_answered_is_there_after_a_kill_and_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as (_, connection):
        pid = connection.info("server")["process_id"]
        for number in range(1_000):
            connection.rpush("list", number)
        os.kill(pid, signal.SIGKILL)
    for _ in range(2):
        with running(tmp_path) as (_, connection):
            assert connection.llen("list") == 1_000


def test_it_says_that_a_long_script_keeps_it(tmp_path: Path) -> None:
    with running(tmp_path) as (folder, connection):
        assert not redis_is_occupied(folder)
        connection.config_set("lua-time-limit", 50)
        impatient = redis.Redis.from_url(redis_url(folder), socket_timeout=0.2, retry=None)
        with impatient, pytest.raises(redis.TimeoutError):
            impatient.eval("while true do end", 0)
        assert redis_is_occupied(folder)
        assert not redis_answers(folder)
        connection.script_kill()


def test_only_this_user_reaches_it_at_a_path_with_odd_characters_and_it_forgets_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "a b?c#d%e") as (folder, connection):
        assert connection.config_get("appendfsync") == {"appendfsync": "always"}
        assert connection.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert connection.config_get("port") == {"port": "0"}
        assert stat.S_IMODE((folder.sockets / "redis.sock").stat().st_mode) == 0o700


def test_it_ends_with_the_service_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from gradebox.service.data_folder import hold\n"
        "from gradebox.service.redis import redis_answers, redis_process\n"
        "with hold(Path(sys.argv[1])) as folder:\n"
        "    redis_process(folder).start()\n"
        "    while not redis_answers(folder): time.sleep(0.01)\n"
        "    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, cwd=ROOT)

    with hold(tmp_path) as folder:  # waits for the lock that Redis inherited
        assert not redis_answers(folder)
