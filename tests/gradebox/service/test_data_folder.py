import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradebox.errors import CannotServe
from gradebox.service.data_folder import hold


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
    # The killed service's Redis has inherited the lock. A sleep stands for its last writes.
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


@pytest.mark.parametrize("mode", [0o700, 0o770])
def test_a_killed_service_leaves_its_place_for_the_socket_to_the_next(tmp_path: Path, mode: int) -> None:
    code = (
        "import os, sys; from pathlib import Path; from gradebox.service.data_folder import hold\n"
        "with hold(Path(sys.argv[1])) as folder:\n"
        "    print(folder.sockets, flush=True); os.kill(os.getpid(), 9)"
    )
    data = tmp_path / ("x" * 100)
    command = [sys.executable, "-c", code, str(data)]
    root = Path(__file__).parents[3]
    left = Path(subprocess.run(command, check=False, cwd=root, capture_output=True, text=True).stdout.strip())
    left.chmod(mode)
    with hold(data) as folder:
        assert (folder.sockets == left) == (mode == 0o700)  # nobody else must be able to enter it
    assert left.exists() == (mode != 0o700)
    if left.exists():
        left.rmdir()


def test_logs_of_processes_that_are_no_more_are_removed(tmp_path: Path) -> None:
    with hold(tmp_path) as folder:
        kept = folder.log("api")
        for name in ("api.log", "api.log.1", "worker-9.log", "worker-9.log.1"):
            (kept.parent / name).touch()
        folder.forget_logs(but=[kept])
        assert {path.name for path in kept.parent.iterdir()} == {"api.log", "api.log.1"}


def test_what_is_there_is_closed_to_other_users(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for name in ("spool", "logs"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    with hold(tmp_path) as folder:
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
        for path in (tmp_path / "spool", folder.log("api").parent):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_folder_that_everybody_writes_to_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with hold(tmp_path):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("is_link", [False, True])
def test_what_another_user_has_put_there_is_refused(tmp_path: Path, is_link: bool) -> None:
    spool = tmp_path / "data" / "spool"
    spool.parent.mkdir()
    (tmp_path / "ours").mkdir(mode=0o700)
    if is_link:
        spool.symlink_to(tmp_path / "ours")
    else:
        spool.mkdir()
    os.chown(spool, 65533, 65533, follow_symlinks=False)
    with pytest.raises(CannotServe, match="spool belongs to another user"), hold(spool.parent):
        pass
