from pathlib import Path


def test_the_small_disk_is_seen_by_this_run_alone(disk: Path) -> None:
    assert str(disk) in Path("/proc/self/mounts").read_text()
    assert str(disk) not in Path("/proc/1/mounts").read_text()
