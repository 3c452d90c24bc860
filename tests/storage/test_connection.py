import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from storage import names
from storage.connection import FORMAT, check_format, load_scripts, lua
from storage.errors import UnknownFormat
from storage.store import Store
from tests.storage.making import claim, finish


@pytest.fixture
def format_1(redis: Redis) -> dict[str, str]:
    """What a gradebox of format 1 left: a batch that is over, one with a unit lent and one pending, and one queued."""
    kept: dict[str, Any] = json.loads(Path(__file__).with_name("format_1.json").read_text())
    write: dict[str, Callable[[str, Any], object]] = {
        "string": lambda name, value: redis.set(name, value.encode("latin-1")),
        "hash": lambda name, value: redis.hset(name, mapping=value),
        "list": lambda name, value: redis.rpush(name, *value),
        "zset": lambda name, value: redis.zadd(name, value),
        "set": lambda name, value: redis.sadd(name, *value),
    }
    redis.flushdb()
    for name, ((kind, value),) in ((name, held.items()) for name, held in kept.pop("keys").items()):
        write[kind](name, value)
    return kept


def test_data_of_a_newer_gradebox_is_refused(redis: Redis) -> None:
    redis.set(names.FORMAT, 99)
    with pytest.raises(UnknownFormat, match="format 99"):
        check_format(redis)


def test_an_empty_redis_is_claimed_once(redis: Redis) -> None:
    check_format(redis)
    assert redis.get(names.FORMAT) == b"%d" % FORMAT


def test_batches_of_an_older_gradebox_are_scored_to_their_end(
    format_1: dict[str, str], redis: Redis, store: Store
) -> None:
    check_format(redis)
    check_format(redis)  # as every process of a service does
    assert redis.zrange(names.UNFROZEN, 0, -1) == [format_1["over"].encode()]
    before = store.batches.get("default", format_1["over"])
    store.freezer.freeze(format_1["over"])
    assert store.batches.get("default", format_1["over"]) == before

    assert int(redis.get(names.FORMAT) or 0) == FORMAT
    assert store.backlog.of("default").completions == 2500 - 1000 + 1500
    redis.zadd(names.LEASES, {format_1["lease"]: 1}, xx=True)  # it ran out since
    store.leases.beat([])
    while lease := store.leases.claim():
        assert finish(store, lease)
    for batch, threads in ((format_1["over"], 10), (format_1["running"], 2500), (format_1["queued"], 1500)):
        found = store.batches.get("default", batch)
        assert (found.state, found.done, found.scored) == ("finished", threads, threads)
    assert set(redis.zrange(names.ENDED, 0, -1)) == {format_1[name].encode() for name in ("over", "running", "queued")}
    assert not redis.exists(names.TURNS, names.WAITING, names.ACTIVE, "gradebox:rotation")


def test_a_batch_of_an_older_gradebox_starts_with_a_lease_still_held(
    format_1: dict[str, str], redis: Redis, store: Store
) -> None:
    redis.zadd(names.LEASES, {format_1["lease"]: 1e15}, xx=True)
    check_format(redis)
    assert [claim(store).batch for _ in range(3)] == [format_1["running"], format_1["queued"], format_1["queued"]]
    assert store.leases.claim() is None


def test_scripts_are_compiled_before_they_are_used(redis: Redis) -> None:
    redis.script_flush()
    load_scripts(redis)
    digests = [hashlib.sha1(lua(name).encode()).hexdigest() for name in ("claim", "complete", "freeze", "release")]
    assert all(redis.script_exists(*digests))
    assert not any(redis.script_exists(hashlib.sha1(lua("migrate_3").encode()).hexdigest()))
