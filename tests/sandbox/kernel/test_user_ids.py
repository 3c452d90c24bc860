import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox.errors import InfrastructureError
from sandbox.kernel.user_ids import USER_IDS, UserIds
from sandbox.settings import SandboxSettings

_ROOT = Path(__file__).parents[3]
_TAKES_TWO = """
import sys
from pathlib import Path
from sandbox.kernel.user_ids import UserIds
ids = UserIds(Path(sys.argv[1]), range(5000, 5004))
print(ids.take(), ids.take(), flush=True)
sys.stdin.read()
"""


def test_all_user_ids_of_a_service_exist() -> None:
    none = 2**32 - 1  # the kernel's -1
    assert SandboxSettings(first_uid=none - USER_IDS).first_uid + USER_IDS - 1 < none
    with pytest.raises(ValidationError, match="first_uid"):
        SandboxSettings(first_uid=none - USER_IDS + 1)


def test_no_two_are_the_same(tmp_path: Path) -> None:
    with closing(UserIds(tmp_path, range(5000, 5008))) as ids:
        assert {ids.take() for _ in range(8)} == {*range(5000, 5008)}
        with pytest.raises(InfrastructureError, match="all 8 user ids from 5000 on are in use"):
            ids.take()
        ids.give_back(5003)
        assert ids.take() == 5003


def test_nor_those_of_another_process_until_it_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TAKES_TWO, str(tmp_path)]
    with (
        closing(UserIds(tmp_path, range(5000, 5004))) as ids,
        subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None
        theirs = {int(number) for number in other.stdout.readline().split()}
        assert theirs | {ids.take(), ids.take()} == {*range(5000, 5004)}
        with pytest.raises(InfrastructureError):
            ids.take()
        other.kill()
        other.wait()
        assert {ids.take(), ids.take()} == theirs


def test_the_file_is_this_users_alone(tmp_path: Path) -> None:
    with closing(UserIds(tmp_path, range(5000, 5001))):
        (file,) = tmp_path.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("option", ["ro", "rw"])
@pytest.mark.skipif(os.geteuid() != 0, reason="root mounts")
def test_a_folder_that_cannot_be_written_keeps_those_of_one_process_apart(option: str, disk: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)
    with closing(UserIds(disk, range(5000, 5002))) as ids:
        assert {ids.take(), ids.take()} == {5000, 5001}
    assert bool([*disk.iterdir()]) == (option == "rw")
