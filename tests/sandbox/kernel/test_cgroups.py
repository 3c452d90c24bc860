"""Tests with the kernel's control groups if this process may write them, and with the files of v2 in a folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.kernel.cgroups import Cgroup, Cgroups

MIB = 1 << 20


@pytest.fixture
def group() -> Iterator[Cgroup]:
    found = Cgroups.find()
    if found is None:
        pytest.skip("no control groups can be written here")
    made = found.make(processes=8)
    yield made
    made.remove()


def test_a_real_group_holds_what_joins_it_until_it_is_removed(group: Cgroup) -> None:
    with subprocess.Popen(group.joined(["sh", "-c", "echo in; exec sleep 60"]), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"in\n"
            for folder in group.folders.values():
                assert (folder / "cgroup.procs").read_text().split() == [str(process.pid)]
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
    script = f"head -c {64 * MIB} /dev/zero | tail"
    subprocess.run(group.joined(["sh", "-c", script]), stdout=subprocess.DEVNULL, timeout=30, check=False)
    assert group.ran_out_of_memory()
    assert not group.ran_out_of_memory()


def test_real_processors_are_shared_by_weight_and_bounded(group: Cgroup) -> None:
    if not group.shares_processors:
        pytest.skip("no control group for processors can be written here")
    group.weigh(0.5)
    group.allow_processors(0.2)
    folder = group.folders["cpu"]
    told = {path.name: path.read_text().split() for path in folder.glob("cpu.*")}
    assert told.get("cpu.shares", told.get("cpu.weight")) in (["512"], ["50"])
    assert told.get("cpu.cfs_quota_us", told.get("cpu.max", [""])[:1]) == ["20000"]
    spin = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    done = subprocess.run(group.joined([sys.executable, "-c", spin]), capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.5


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
    subprocess.run(group.joined(["true"]), check=True)
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {"pids.max": "35", "memory.swap.max": "0", "memory.max": str(100 * MIB), "cgroup.procs": "0\n"}


def test_processors_in_v2(parent: Path) -> None:
    groups = Cgroups({"cpu": parent, "memory": parent, "pids": parent}, 2)
    group = groups.make(processes=35, processors=0.5)
    (parent / f"{group.folders['cpu'].name}/cpu.max").touch()
    group.allow_processors(0.5)
    group.weigh(1e9)
    written = {path.name: path.read_text() for path in group.folders["cpu"].iterdir()}
    assert (written["cpu.weight"], written["cpu.max"]) == ("10000", "50000 100000")
    assert groups.share_processors and group.shares_processors
    assert not Cgroups({"memory": parent, "pids": parent}, 2).share_processors


def test_what_cannot_join_its_group_does_not_run(parent: Path) -> None:
    group = Cgroup({"memory": parent / "gone", "pids": parent / "gone"}, 2)
    done = subprocess.run(group.joined(["echo", "ran"]), capture_output=True, check=False)
    assert done.returncode != 0
    assert done.stdout == b""


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
