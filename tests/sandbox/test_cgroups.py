"""The kernel's own hierarchy where this process may write it; the files of v2 else, in a folder that stands for it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cgroups import Cgroup, Cgroups

MIB = 1 << 20


@pytest.fixture
def group() -> Iterator[Cgroup]:
    found = Cgroups.find()
    if found is None:
        pytest.skip("no control groups can be written here")
    made = found.make(processes=8)
    yield made
    made.remove()


def test_a_real_group_holds_what_is_added_until_it_is_removed(group: Cgroup) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            group.add(process.pid)
            for folder in group.folders.values():
                assert str(process.pid) in (folder / "cgroup.procs").read_text().split()
        finally:
            process.kill()
    group.remove()
    assert not any(folder.exists() for folder in group.folders.values())
    group.remove()


def test_real_memory_is_bounded_up_and_down(group: Cgroup) -> None:
    for mebibytes in (64, 256, 32):
        group.allow_memory(mebibytes)
        folder = group.folders["memory"]
        bounds = [folder / "memory.max", folder / "memory.limit_in_bytes"]
        assert [int(path.read_text()) for path in bounds if path.exists()] == [mebibytes * MIB]


def test_who_wants_more_memory_is_ended_and_it_is_told_once(group: Cgroup) -> None:
    group.allow_memory(16)
    assert not group.ran_out_of_memory()
    script = f"echo $$ > /dev/null; read go; exec head -c {64 * MIB} /dev/zero | tail"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        group.add(process.pid)
        process.communicate(b"go\n", timeout=30)
    assert group.ran_out_of_memory()
    assert not group.ran_out_of_memory()


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "gradebox"
    folder.mkdir()
    return folder


def test_the_files_of_v2(parent: Path) -> None:
    group = Cgroups({"memory": parent, "pids": parent}, 2).make(processes=35)
    (folder,) = parent.iterdir()
    assert folder.name.startswith(f"{os.getpid()}-")
    group.allow_memory(100)
    group.add(4242)
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {
        "pids.max": "35",
        "memory.swap.max": "0",
        "memory.max": str(100 * MIB),
        "cgroup.procs": "4242",
    }


def test_kills_for_memory_in_v2_are_told_once_each(parent: Path) -> None:
    group = Cgroup({"memory": parent, "pids": parent}, 2)
    events = parent / "memory.events"
    told = []
    for kills in (0, 1, 1, 3):
        events.write_text(f"low 0\nhigh 0\nmax 7\noom 9\noom_kill {kills}\noom_group_kill 5\n")
        told.append(group.ran_out_of_memory())
    assert told == [False, True, False, True]


def test_groups_of_services_that_are_no_more_are_removed(parent: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    for name in (f"{gone.pid}-abc", f"{os.getpid()}-abc", "other", "other-1"):
        (parent / name).mkdir()
    Cgroups({"memory": parent, "pids": parent}, 2).remove_stale()
    assert sorted(path.name for path in parent.iterdir()) == sorted([f"{os.getpid()}-abc", "other", "other-1"])
