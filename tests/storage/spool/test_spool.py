import io
import json
import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from storage.errors import AttemptWritten, CutOff, PayloadLost, SpoolUnusable
from storage.spool import disk
from storage.spool.file_store import MIB
from storage.spool.spool import Spool, is_full
from storage.store import Store
from storage.uploads import SpoolUpload
from tests.object_store import problem, store_that_answers


def test_ranges_of_one_file_and_of_several(spool: Spool) -> None:
    with spool.writing_payload("b1") as file:
        file.write(b"0123456789")
    spool.write_outcomes("b1", {(0, 1): b"abcdef"})
    spool.write_index("b1", "0-x", io.BytesIO(b"an index"))
    letters, numbers = partial(spool.outcomes_range, "b1", 0, 1), partial(spool.payload_range, "b1")
    ranges = [numbers(2, 4), letters(0, 3), numbers(5, 5), letters(4, 6), spool.index_range("b1", "0-x", 3, 8)]
    assert list(spool.files.read_ranges(ranges)) == [b"23", b"abc", b"", b"ef", b"index"]
    with pytest.raises(PayloadLost, match="cut off"):
        spool.read_payload("b1", 8, 5)
    with pytest.raises(PayloadLost):
        spool.read_payload("b1", 20, 5)
    for lost in (numbers(8, 12), numbers(20, 22), spool.payload_range("b2", 0, 1)):
        with pytest.raises(PayloadLost):
            list(spool.files.read_ranges([letters(0, 3), lost]))
    for away in (letters(4, 7), spool.outcomes_range("b1", 1, 1, 0, 1)):
        with pytest.raises(OSError):
            list(spool.files.read_ranges([numbers(2, 4), away]))


def test_the_data_of_an_environment(spool: Spool) -> None:
    one, two = "1" * 20, "2" * 20
    for name in (one, two):
        assert not spool.has_data(name)
        with spool.writing_data(name) as file:
            file.write(b"zip" * 100_000)
        assert spool.has_data(name)
    with spool.open_data(one) as read:
        read.seek(-6, 2)  # zip files are read from the end
        assert read.read() == b"zipzip"
    assert (spool.batches(), spool.archives()) == ({one, two}, set())

    spool.remove(one)

    assert spool.batches() == {two}
    with pytest.raises(FileNotFoundError):
        spool.open_data(one).read()


def test_the_content_of_an_environment(spool: Spool) -> None:
    one, two = "1" * 64, "2" * 64
    for sha256 in (one, two):
        assert not spool.has_archive(sha256)
        spool.write_archive(sha256, io.BytesIO(sha256.encode() * 100_000))
    assert spool.archives() == {one, two}
    with spool.open_archive(one) as file:
        assert file.read() == one.encode() * 100_000

    spool.remove_archive(one)

    assert spool.archives() == {two}
    with pytest.raises(FileNotFoundError):
        spool.open_archive(one).read()
    assert spool.batches() == set()  # archives belong to no batch


def test_each_attempt_has_a_file_of_its_own(spool: Spool) -> None:
    spool.write_outcomes("b1", {(3, 1): b"one\n", (3, 2): b"two\n"})
    spool.remove_outcomes("b1", 3, 1)
    spool.remove_outcomes("b1", 3, 1)
    with spool.open_outcomes("b1", 3, 2) as file:
        assert list(file) == [b"two\n"]
    with pytest.raises(FileNotFoundError), spool.open_outcomes("b1", 3, 1):
        pass


def test_what_was_written_once_is_never_replaced(spool: Spool) -> None:
    spool.write_outcomes("b1", {(0, 1): b"it counts\n"})
    with pytest.raises(AttemptWritten):
        spool.write_outcomes("b1", {(1, 1): b"beside\n", (0, 1): b"something else\n"})
    with spool.open_outcomes("b1", 0, 1) as file:
        assert file.read() == b"it counts\n"
    assert spool.outcome_files("b1") == [(0, 1)]
    spool.write_outcomes("b1", {(1, 1): b"beside\n"})


def test_objects_whose_acknowledgement_was_lost_are_written_again(bucket: str) -> None:
    spool = Spool(f"{bucket}/again")
    spool.write_outcomes("b1", {(0, 1): b"one\n"})
    spool.write_outcomes("b1", {(0, 1): b"one\n", (1, 1): b"two\n"})
    spool.write_outcomes("b1", {(0, 1): b"one\n"})
    assert sorted(spool.outcome_files("b1")) == [(0, 1), (1, 1)]


def test_what_could_not_be_synced_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(f"file://{tmp_path}/spool")
    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_folder", lambda path: (_ for _ in ()).throw(OSError("no disk")))
        (tmp_path / "spool" / "outcomes" / "b1").mkdir(parents=True)
        with pytest.raises(OSError, match="no disk"):
            spool.write_outcomes("b1", {(0, 1): b"one\n"})
    spool.write_outcomes("b1", {(0, 1): b"one\n"})


def test_the_name_of_a_new_folder_is_on_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(f"file://{tmp_path}/spool")
    synced: list[Path] = []
    sync = disk.sync_folder

    def note(path: Path) -> None:
        synced.append(path)
        sync(path)

    monkeypatch.setattr(disk, "sync_folder", note)
    spool.write_outcomes("b1", {(0, 1): b"one\n"})
    outcomes = tmp_path / "spool" / "outcomes"
    assert synced == [tmp_path, tmp_path / "spool", outcomes, outcomes / "b1"]


def test_a_table_is_written_whole_may_be_written_again_and_is_noticed_if_cut_off(spool: Spool) -> None:
    for _ in range(2):
        name = spool.write_table("b1", b"the table")
        assert spool.read_table("b1", name) == b"the table"
        assert spool.tables("b1") == [name]
    assert spool.outcome_files("b1") == []
    path = f"{spool._root}/outcomes/b1/{name}"
    spool.files.system.rm_file(path)
    with spool.files.system.open(path, "wb") as file:
        file.write(b"the tab")
    with pytest.raises(CutOff):
        spool.read_table("b1", name)
    with spool.files.system.open(
        f"{spool._root}/outcomes/b1/table", "wb"
    ) as file:  # of an earlier release, without a digest
        file.write(b"0123")
    assert spool.read_table("b1", "table") == b"0123"
    spool.remove("b1")
    with pytest.raises(FileNotFoundError):
        spool.read_table("b1", name)


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


def test_files_that_an_object_store_does_not_delete_are_an_error(bucket: str) -> None:
    import boto3  # here, as in `object_store`

    spool = Spool(f"{bucket}/kept")
    spool.write_outcomes("b1", {(0, 1): b"{}\n", (1, 1): b"{}\n"})
    client, name = boto3.client("s3"), bucket.split("/")[2]
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::*/0-1.jsonl"}
    client.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [denied]}))
    with pytest.raises(OSError, match="1 of the files"):
        spool.remove("b1")
    client.delete_bucket_policy(Bucket=name)
    assert spool.outcome_files("b1") == [(0, 1)]
    spool.remove("b1")
    assert spool.outcome_files("b1") == []


def test_a_folder_in_which_another_process_removes_files_too_is_not_taken_for_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(f"file://{tmp_path}/spool")
    spool.write_outcomes("b1", {(unit, 1): b"{}\n" for unit in range(3)})
    unlink = os.unlink

    def second(path: str, **options: Any) -> None:
        unlink(path, **options)
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", second)
        ends = sys.version_info < (3, 13)  # `rmtree` passes over such files since
        with pytest.raises(OSError, match="2 of the files") if ends else nullcontext():
            spool.remove("b1")
    spool.remove("b1")
    assert spool.outcome_files("b1") == []


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    Spool(f"file://{tmp_path}/spool").check()
    with pytest.raises(OSError):
        Spool(f"file://{tmp_path}/file/spool").check()


def test_what_another_process_wrote_is_seen_at_once(bucket: str) -> None:
    one, other = Spool(f"{bucket}/shared"), Spool(f"{bucket}/shared")
    one.write_outcomes("b1", {(0, 1): b"{}\n"})
    other.remove("b1")
    one.write_outcomes("b1", {(1, 1): b"{}\n"})
    other.remove("b1")
    with pytest.raises(FileNotFoundError):
        one.open_outcomes("b1", 1, 1)


def test_a_large_payload_goes_up_in_parts(bucket: str) -> None:
    spool = Spool(f"{bucket}/large")
    with spool.writing_payload("b1") as file:
        for number in range(20):
            file.write(bytes([number]) * MIB)
    assert spool.read_payload("b1", 11 * MIB - 1, 2) == b"\x0a\x0b"


def test_no_parts_are_left_of_an_object_that_cannot_be_finished_or_is_abandoned(
    bucket: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(f"{bucket}/parts")
    tried = []

    def refuse(_: object) -> None:
        tried.append("to finish it")
        raise OSError("the bucket is full")

    monkeypatch.setattr("s3fs.core.S3File.commit", refuse)
    with pytest.raises(OSError, match="full"), spool.writing_payload("b1") as file:
        file.write(bytes(9 * MIB))
    upload = SpoolUpload(Store(redis, spool), "", spool.writing_payload)
    upload.write(bytes(9 * MIB))
    upload.abandon()
    assert tried == ["to finish it"]
    assert spool.files.system.list_multipart_uploads(spool._root.partition("/")[0]) == []


@pytest.mark.parametrize("spool", ["file", "s3"], indirect=True)
@pytest.mark.parametrize("size", [MIB, 20 * MIB])
def test_of_an_index_that_broke_off_nothing_is_there(spool: Spool, size: int) -> None:
    class BreaksOff(io.BytesIO):
        def read(self, most: int | None = -1, /) -> bytes:
            if found := super().read(most):
                return found
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        spool.write_index("b1", "0-x", BreaksOff(bytes(size)))
    assert "0-x" not in spool.indexes("b1")
    spool.write_index("b1", "0-x", io.BytesIO(b"whole"))
    assert "0-x" in spool.indexes("b1")


def test_an_object_store_that_is_not_there_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ENDPOINT_URL": "http://127.0.0.1:1", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(OSError, match="the spool does not answer"):
        Spool("s3://nowhere/else").read_payload("b1", 0, 1)


def test_a_body_that_an_object_store_breaks_off_is_an_os_error() -> None:
    with store_that_answers(200, b"cut", missing=100) as requests:
        spool = Spool("s3://bucket/spool")
        for read in (lambda: spool.read_payload("b1", 0, 103), lambda: spool.open_outcomes("b1", 0, 1)):
            with pytest.raises(OSError, match="the spool does not answer"):
                read()
        with spool.open_recorded("b1", "x") as file, pytest.raises(OSError, match="the spool does not answer"):
            file.read(50)
    assert len(requests) == 2 + 3 + 3  # each read is tried twice; before the last two, the size is asked for


def test_a_part_that_an_object_store_refuses_is_an_os_error_of_the_write() -> None:
    with (
        store_that_answers(200, missing=1),
        pytest.raises(ZeroDivisionError),
        Spool("s3://bucket/spool").writing_payload("b1") as file,
    ):
        with pytest.raises(OSError, match="the spool does not answer"):
            file.write(bytes(9 * MIB))
        raise ZeroDivisionError


@pytest.mark.parametrize("code", ["QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull"])
def test_an_object_store_without_room_is_full_as_a_disk_is(code: str) -> None:
    with store_that_answers(403, problem(code)), pytest.raises(OSError, match="the object store is full") as full:
        Spool("s3://bucket/spool").write_outcomes("b1", {(0, 1): b"{}\n"})
    assert is_full(full.value)


def test_a_payload_is_not_lost_because_an_object_store_refuses_to_read_it() -> None:
    with store_that_answers(400, problem("AuthorizationHeaderMalformed")), pytest.raises(OSError, match="no"):
        Spool("s3://bucket/spool").read_payload("b1", 5, 10)


def test_what_waiting_does_not_help_is_told_from_what_may_pass(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Spool(bucket).check_usable()
    with pytest.raises(SpoolUnusable, match="there is no another-bucket/spool: make the bucket"):
        Spool("s3://another-bucket/spool").check_usable()
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        Spool(bucket).check_usable()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(SpoolUnusable, match="give credentials that may write there"):
        Spool(bucket).check_usable()


def test_a_url_of_no_file_system_is_refused_with_the_name_of_its_setting() -> None:
    with pytest.raises(SpoolUnusable, match="GRADEBOX_SPOOL_URL is invalid: Protocol not known: foo"):
        Spool("foo://x")


def test_a_spool_with_the_payload_of_a_batch_or_a_mark_is_there(spool: Spool) -> None:
    assert not spool.is_there("b1")
    with spool.writing_payload("b1") as file:
        file.write(b"0")
    assert spool.is_there("b1")
    assert not spool.is_there("b2")
    spool.write_mark("mark")
    assert spool.is_there("b2")
