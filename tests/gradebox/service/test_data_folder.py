import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradebox.errors import CannotServe
from gradebox.service.data_folder import LOG_BYTES, hold


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    with hold(tmp_path / "a" / "b") as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.redis.stat().st_mode) == 0o700


def test_a_second_service_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with (
        hold(tmp_path),
        pytest.raises(CannotServe, match=rf"process {os.getpid()}\) uses .*--data-dir"),
        hold(tmp_path),
    ):
        pass
    with hold(tmp_path):
        pass


def test_after_a_kill_the_folder_is_free_once_its_redis_has_ended(tmp_path: Path) -> None:
    # The killed service's Redis inherited the lock: here a sleep stands where it writes its last.
    code = (
        "import os, subprocess, sys; from pathlib import Path; from gradebox.service.data_folder import hold\n"
        "with hold(Path(sys.argv[1])) as folder:\n"
        "    subprocess.Popen(['sleep', '0.7'], pass_fds=[folder.lock]); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, cwd=Path(__file__).parents[3])
    started = time.monotonic()

    with hold(tmp_path):
        assert 0.2 < time.monotonic() - started < 5


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotServe, match=r"cannot be written .*--data-dir"), hold(tmp_path / "file" / "data"):
        pass


def test_a_path_too_long_for_a_socket_gets_a_private_place_for_it(tmp_path: Path) -> None:
    with hold(tmp_path / ("x" * 100)) as folder:
        assert len(str(folder.sockets / "redis.sock")) < 100
        assert stat.S_IMODE(folder.sockets.stat().st_mode) == 0o700
    assert not folder.sockets.exists()


def test_a_log_that_has_grown_large_is_put_aside(tmp_path: Path) -> None:
    with hold(tmp_path) as folder:
        with folder.log("api").open("wb") as log:
            log.truncate(LOG_BYTES + 1)
        assert not folder.log("api").exists()
        assert (tmp_path / "logs" / "api.log.1").exists()
