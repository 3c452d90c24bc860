from pathlib import Path

import pytest

from storage.errors import PayloadLost
from storage.spool import Spool


@pytest.fixture(params=["file", "memory"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    return Spool(f"file://{tmp_path}/spool" if request.param == "file" else f"memory://{tmp_path.name}")


def test_a_payload_is_read_by_range(spool: Spool) -> None:
    with spool.writing_payload("b1") as file:
        file.write(b"0123456789")
    assert spool.read_payload("b1", 2, 3) == b"234"


def test_a_payload_that_is_cut_off_is_noticed(spool: Spool) -> None:
    with spool.writing_payload("b1") as file:
        file.write(b"0123456789")
    with pytest.raises(PayloadLost, match="cut off"):
        spool.read_payload("b1", 8, 5)


def test_each_attempt_has_a_file_of_its_own(spool: Spool) -> None:
    spool.write_outcomes("b1", {(3, 1): b"one\n", (3, 2): b"two\n"})
    spool.remove_outcomes("b1", 3, 1)
    spool.remove_outcomes("b1", 3, 1)
    with spool.open_outcomes("b1", 3, 2) as file:
        assert list(file) == [b"two\n"]
    with pytest.raises(FileNotFoundError), spool.open_outcomes("b1", 3, 1):
        pass


def test_nothing_is_left_of_a_removed_batch(spool: Spool) -> None:
    with spool.writing_payload("b1") as file:
        file.write(b"{}\n")
    spool.write_outcomes("b1", {(0, 1): b"{}\n"})
    spool.remove("b1")
    spool.remove("b1")
    with pytest.raises(PayloadLost):
        spool.read_payload("b1", 0, 1)
    with pytest.raises(FileNotFoundError):
        spool.open_outcomes("b1", 0, 1)


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    Spool(f"file://{tmp_path}/spool").check()
    with pytest.raises(OSError):
        Spool(f"file://{tmp_path}/file/spool").check()
