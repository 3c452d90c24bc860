import time
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from storage import redis_keys
from storage.access.quotas import Quotas
from storage.connection import connect
from storage.errors import PayloadLost, QuotaExceeded, Refused, TooLarge
from storage.spool.spool import Spool
from storage.store import Store
from storage.uploads import Upload
from tests.conftest import redis_server


def test_nothing_is_left_of_one_that_is_abandoned(store: Store, redis: Redis) -> None:
    upload = Upload(store)
    with pytest.raises(TooLarge):
        upload.write(b"x" * 5_000_000)
    upload.abandon()
    with pytest.raises(PayloadLost):
        store.spool.read_payload(upload.id, 0, 1)
    assert not redis.exists(redis_keys.GARBAGE)


def test_one_is_abandoned_without_redis_too(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        store = Store(connect(url), Spool(f"file://{tmp_path}/spool"))
        upload = Upload(store)
        upload.write(b"{}\n")
    upload.abandon()  # its caller has another error to tell
    assert store.spool.batches() == set()


def test_one_that_was_swept_away_meanwhile_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = Upload(store)
    upload.write(b"{}\n")
    store.orphan_files.swept(upload.id)
    monkeypatch.setattr("storage.uploads.monotonic", lambda: time.monotonic() + 3601)
    with pytest.raises(Refused, match="made no progress"):
        upload.finish()


def test_one_that_redis_lost_is_to_be_sent_again(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = Upload(store)
    for minutes in (50, 100):
        monkeypatch.setattr("storage.uploads.monotonic", lambda at=minutes: time.monotonic() + 60 * at)
        upload.write(b"{}\n")  # it is renewed
    redis.zrem(redis_keys.UPLOADS, upload.id)
    with pytest.raises(OSError, match="Redis has lost the upload"):
        upload.finish()
    upload.abandon()
    with pytest.raises(PayloadLost):
        store.spool.read_payload(upload.id, 0, 1)


def test_uploads_at_once_are_held_to_the_quota(redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.uploads._CHECK_BYTES", 1)
    monkeypatch.setattr("storage.queue.backlog._ASK_BYTES", 1)
    monkeypatch.setattr(store.backlog, "_quotas", Quotas(spool_bytes=100))
    first, second, other = Upload(store, project="a"), Upload(store, project="a"), Upload(store, project="b")
    line = b"x" * 59 + b"\n"
    first.write(line)
    first.write(b"y")
    second.write(line)
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SPOOL_GB"):
        second.write(b"y")
    second.abandon()
    other.write(line)
    other.write(b"y")
    first.write(b"y\n")
    first.finish()
    assert not store.backlog._uploads["a"]
    other.abandon()
    assert not store.backlog._uploads["b"]


def test_the_quota_is_read_once_in_many_pieces(redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> int:
        stats: Any = redis.info("commandstats")
        return int(stats.get("cmdstat_hget", {}).get("calls", 0))

    monkeypatch.setattr("storage.uploads._CHECK_BYTES", 1)
    monkeypatch.setattr("storage.queue.backlog._ASK_BYTES", 100)
    monkeypatch.setattr(store.backlog, "_quotas", Quotas(spool_bytes=1000))
    uploads = [Upload(store, project="a") for _ in range(3)]
    before, written = asked(), 0
    with pytest.raises(QuotaExceeded):
        for upload in cycle(uploads):
            upload.write(b"{       }\n")
            written += 10
    assert 1000 < written < 1000 + 100 + len(uploads) * 20  # what each wrote last is counted at its next write
    assert asked() - before <= 11
    for upload in uploads:
        upload.abandon()
