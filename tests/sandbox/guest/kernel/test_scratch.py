import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.guest.kernel import scratch


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    found = [tmp_path / "a", tmp_path / "b"]
    for folder in found:
        folder.mkdir()
    monkeypatch.setattr(scratch, "FOLDERS", tuple(map(str, found)))
    yield found
    for folder in found:
        folder.chmod(0o700)


def _left(folders: list[Path]) -> list[str]:
    return sorted(path.name for folder in folders for path in folder.iterdir())


def test_everything_is_removed(folders: list[Path]) -> None:
    first, second = folders
    (first / "file").write_text("x")
    (first / ".hidden").write_text("x")
    (first / "folder" / "inner").mkdir(parents=True)
    (first / "folder" / "inner" / "file").write_text("x")
    os.mkfifo(second / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(second / "socket"))
    scratch.clean()
    assert _left(folders) == []


def test_links_are_removed_and_not_followed(folders: list[Path], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "file").write_text("x")
    (folders[0] / "folder").mkdir()
    for place in (folders[0], folders[0] / "folder"):
        (place / "link").symlink_to(outside)
        (place / "nowhere").symlink_to("/nowhere")
    scratch.clean()
    assert _left(folders) == []
    assert (outside / "file").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o750


def test_a_folder_of_3000_levels(folders: list[Path]) -> None:
    descriptor = os.open(folders[0], os.O_RDONLY)
    for level in range(3000):
        os.mkdir("x", dir_fd=descriptor)
        os.close(os.open(f"file-{level}", os.O_CREAT, dir_fd=descriptor))
        inner = os.open("x", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    scratch.clean()
    assert _left(folders) == []


def test_folders_that_nobody_may_open(folders: list[Path]) -> None:
    inner = folders[0] / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (inner / "file").touch(mode=0)
    for folder in (inner, inner.parent, inner.parent.parent):
        folder.chmod(0)
    scratch.clean()
    assert _left(folders) == []


def test_names_that_are_no_text_and_names_of_ours(folders: list[Path]) -> None:
    (folders[0] / "\udcff\n").mkdir()
    (folders[0] / ".lifted-1").mkdir()
    (folders[0] / ".lifted-2").touch()
    (folders[0] / "z").mkdir()
    scratch.clean()
    assert _left(folders) == []


def test_what_is_to_be_kept_is_kept_whole(folders: list[Path]) -> None:
    (folders[0] / "kept" / "inner").mkdir(parents=True)
    (folders[1] / "kept-too").write_text("x")
    keep = scratch.names()
    assert keep == {f"{folders[0]}/kept", f"{folders[1]}/kept-too"}
    (folders[0] / "new").mkdir()
    (folders[1] / "kept").write_text("x")
    scratch.clean(keep)
    assert _left(folders) == ["kept", "kept-too"]
    assert (folders[0] / "kept" / "inner").is_dir()


def test_a_folder_that_is_gone_makes_it_not_clean(folders: list[Path]) -> None:
    folders[1].rmdir()
    with pytest.raises(scratch.NotClean, match="No such file"):
        scratch.clean()
    folders[1].mkdir()


def test_files_are_counted_by_the_file_system(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "FOLDERS", ("/dev/shm",))
    status = os.statvfs("/dev/shm")
    assert abs(scratch.count_files() - (status.f_files - status.f_ffree - 1)) < 50


def test_a_file_system_that_counts_is_known_by_a_file_more(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([5, 6, 5, 5, 6, 5, 5, 5])
    monkeypatch.setattr(scratch, "count_files", lambda: next(told))
    assert scratch.is_counted()
    assert not scratch.is_counted()


def test_nothing_is_left_of_looking_whether_files_are_counted(folders: list[Path]) -> None:
    scratch.is_counted()
    assert _left(folders) == []


def test_folders_that_were_closed_are_opened_again(folders: list[Path]) -> None:
    for folder in folders:
        folder.chmod(0)
    scratch.reopen()
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
    folders[1].rmdir()
    with pytest.raises(scratch.NotClean, match="No such file"):
        scratch.reopen()
    folders[1].mkdir()
