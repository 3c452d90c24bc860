"""Tests that the threads that a grader was proved on are kept as long as the grader."""

import pytest
from msgspec.structs import replace
from redis import Redis

from storage import redis_keys
from storage.access.quotas import Quotas
from storage.errors import NotFound, QuotaExceeded
from storage.graders import check_threads
from storage.graders.graders import Graders
from storage.store import Store
from tests.storage.making import SOURCE, proved

THREADS = [b'{"completion": "%d"}' % number for number in range(3)]


def create(store: Store, *lines: bytes) -> int:
    return store.graders.create("default", "exact", "", "", replace(proved(), threads=lines)).test_threads


def update(store: Store, *lines: bytes, source: str = SOURCE) -> tuple[int, int]:
    grader = store.graders.update("default", "exact", replace(proved(source), threads=lines))
    assert grader == store.graders.get("default", "exact")
    return grader.version, grader.test_threads


def test_they_stay_until_others_are_sent(store: Store) -> None:
    assert create(store, *THREADS) == 3
    assert store.graders.threads("default", "exact") == THREADS
    assert update(store, source=f"# new\n{SOURCE}") == (2, 3)
    assert store.graders.threads("default", "exact") == THREADS
    assert update(store, THREADS[1], source=f"# new\n{SOURCE}") == (2, 1)
    assert store.graders.threads("default", "exact") == [THREADS[1]]
    assert update(store, *THREADS, source=SOURCE) == (3, 3)


def test_they_go_with_the_grader(store: Store, redis: Redis) -> None:
    create(store, *THREADS)
    store.graders.delete("default", "exact")
    assert not redis.exists(redis_keys.proof_threads("default"))
    assert not redis.exists(redis_keys.version_bytes("default"))
    with pytest.raises(NotFound):
        store.graders.threads("default", "exact")
    assert create(store) == 0
    assert store.graders.threads("default", "exact") == []


def test_as_many_are_kept_as_there_is_room_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_threads, "MOST_BYTES", 2 * (len(THREADS[0]) + 1))
    assert create(store, *THREADS) == 2
    assert store.graders.threads("default", "exact") == THREADS[:2]
    assert update(store, b"x" * 100, source=f"# new\n{SOURCE}") == (2, 2)  # a too long one replaces none


def test_they_count_among_the_bytes_of_a_project(store: Store, redis: Redis) -> None:
    def taken() -> int:
        return int(redis.hget(redis_keys.version_bytes("default"), "exact") or 0)

    create(store)
    before = taken()
    update(store, *THREADS)
    packed = len(check_threads.pack(THREADS).data)
    assert taken() == before + packed
    update(store, THREADS[0])
    assert taken() == before + len(check_threads.pack(THREADS[:1]).data)
    small = Graders(redis, store.audit, Quotas(version_bytes=taken() + 10))
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SOURCES_MB"):
        small.update("default", "exact", replace(proved(), threads=[b"%d" % number * 9 for number in range(99)]))
    assert store.graders.threads("default", "exact") == THREADS[:1]
