"""Tests that the contents of environments stay in the spool while something names them, and no longer than needed."""

import io
import threading
import time
from pathlib import Path

import pytest
from redis import Redis

from storage import redis_keys
from storage.environments.environment_archives import KEPT_S
from storage.janitor import Janitor
from storage.store import Store
from tests.storage.making import full

ONE, TWO = "1" * 64, "2" * 64


def old(redis: Redis, *contents: str) -> None:
    """Makes these contents unwanted for a long time."""
    redis.zadd(redis_keys.ARCHIVES, dict.fromkeys(contents, time.time() - KEPT_S - 1))


def test_what_is_kept_can_be_opened(store: Store) -> None:
    store.archives.keep(ONE, io.BytesIO(b"content"))
    store.archives.keep(ONE, io.BytesIO(b"never read"))  # the content exists
    with store.spool.open_archive(ONE) as file:
        assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        store.spool.open_archive(TWO)
    assert store.spool.archives() == {ONE}


def test_a_damaged_one_is_replaced(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.archives.keep(ONE, io.BytesIO(b"cont"))
    with full(store.redis):
        store.archives.note_damage(ONE)
    assert f"the archive of environment {ONE} in the spool was changed or cut off" in caplog.text
    assert store.archives.has(ONE)
    store.archives.note_damage(ONE)
    assert not store.archives.has(ONE)
    store.archives.keep(ONE, io.BytesIO(b"content"))
    assert store.archives.has(ONE)
    with store.spool.open_archive(ONE) as file:
        assert file.read() == b"content"


def test_only_what_nothing_names_and_nobody_wanted_of_late_is_removed(store: Store) -> None:
    for sha256 in (ONE, TWO):
        store.archives.keep(sha256, io.BytesIO(b"content"))
    assert store.archives.sweep(named=set()) == []
    old(store.redis, ONE, TWO)
    assert store.archives.sweep(named={TWO}) == [ONE]
    assert store.spool.archives() == {TWO}


def test_what_a_crash_left_half_removed_is_removed(store: Store) -> None:
    store.archives.keep(ONE, io.BytesIO(b"content"))
    store.redis.sadd(redis_keys.CONDEMNED_ARCHIVES, ONE)
    store.archives.note_damage(ONE)
    assert store.archives.sweep(named=set()) == [ONE]
    assert store.spool.archives() == set()
    assert not store.redis.exists(redis_keys.CONDEMNED_ARCHIVES, redis_keys.DAMAGED_ARCHIVES)


def test_what_a_killed_writer_left_of_a_content_that_is_named_is_removed_once_nobody_writes_it(store: Store) -> None:
    for sha256 in (ONE, TWO):
        store.archives.keep(sha256, io.BytesIO(b"content"))
    folder = Path(store.spool.files.root, "environments")
    for sha256 in (ONE, TWO):
        (folder / f"{sha256}.tar.0a1b2c3d").write_bytes(b"cont")
    old(store.redis, ONE)
    assert store.archives.sweep(named={ONE, TWO}) == []
    assert sorted(file.name for file in folder.iterdir()) == [f"{ONE}.tar", f"{TWO}.tar", f"{TWO}.tar.0a1b2c3d"]


def test_what_is_being_removed_is_written_anew(store: Store) -> None:
    store.archives.keep(ONE, io.BytesIO(b"old"))
    store.redis.sadd(redis_keys.CONDEMNED_ARCHIVES, ONE)
    keeping = threading.Thread(target=store.archives.keep, args=(ONE, io.BytesIO(b"new")))
    keeping.start()
    time.sleep(0.1)
    assert keeping.is_alive()  # it waits until the old content is removed

    store.archives.sweep(named=set())
    keeping.join(10)

    with store.spool.open_archive(ONE) as file:
        assert file.read() == b"new"


def test_the_janitor_sweeps(store: Store) -> None:
    store.archives.keep(ONE, io.BytesIO(b"content"))
    old(store.redis, ONE)
    assert Janitor(store, None).look()
    assert store.spool.archives() == set()
