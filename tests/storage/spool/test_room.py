"""Tests of a full disk, on a small file system."""

import errno
import resource
from pathlib import Path

import pytest
from redis import Redis

from storage.spool.file_store import MIB
from storage.spool.spool import Spool, is_full
from storage.store import Store
from storage.uploads import Upload


def fill(disk: Path, free: int) -> Path:
    """Fills the disk except for this many MiB."""
    filler = disk / "filler"
    filler.write_bytes(bytes((16 - free) * MIB))
    return filler


def test_uploads_are_refused_first_then_outcomes_and_redis_last(disk: Path) -> None:
    spool = Spool(f"file://{disk}/spool", reserve=8 * MIB)
    spool.check()
    filler = fill(disk, 6)
    with pytest.raises(OSError, match="must stay free") as refused:
        spool.check_room()
    assert refused.value.errno == errno.ENOSPC
    spool.write_outcomes("a", {(0, 1): b"{}"})
    filler.unlink()
    filler = fill(disk, 1)
    with pytest.raises(OSError, match="must stay free"):
        spool.write_outcomes("a", {(1, 1): b"{}"})
    filler.unlink()
    spool.check_room()
    spool.write_outcomes("a", {(1, 1): b"{}"})


def test_an_upload_that_fills_the_disk_leaves_nothing(disk: Path, redis: Redis) -> None:
    store = Store(redis, Spool(f"file://{disk}/spool", reserve=0))
    upload = Upload(store)
    line = b'{"completion": "%b"}\n' % (b"x" * MIB)
    with pytest.raises(OSError) as full:
        for _ in range(17):
            upload.write(line)
    assert is_full(full.value)
    upload.abandon()
    assert not list((disk / "spool" / "payloads").iterdir())


def test_a_disk_that_takes_names_and_no_bytes_is_in_trouble_unless_it_is_full(disk: Path) -> None:
    spool = Spool(f"file://{disk}/spool")
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        trouble = spool.trouble()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
    assert trouble is not None
    fill(disk, 0)
    assert spool.trouble() is None
    assert [*(disk / "spool").iterdir()] == []
