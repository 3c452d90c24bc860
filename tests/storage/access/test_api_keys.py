import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis import Redis

from gradebox import key_file
from storage import redis_keys
from storage.access.audit import acting
from storage.store import Store
from tests.storage.making import full


def secret_of(store: Store, *projects: str) -> str:
    secret = store.api_keys.create("mine", list(projects)).secret
    assert secret is not None
    return secret


def test_a_key_is_found_by_its_secret_which_is_not_kept(store: Store) -> None:
    secret = secret_of(store, "default")
    key = store.api_keys.find(secret)
    assert key is not None and (key.name, key.projects, key.secret) == ("mine", ["default"], None)
    kept = store.redis.hvals(redis_keys.API_KEYS)
    assert not any(secret.split("_", 2)[2].encode() in value for value in kept)


@pytest.mark.parametrize("damage", [lambda s: s[:-1], lambda s: s + "x", lambda s: s.replace("gbx_", ""), lambda _: ""])
def test_a_damaged_secret_finds_nothing(store: Store, damage: object) -> None:
    assert callable(damage)
    assert store.api_keys.find(damage(secret_of(store, "default"))) is None


def test_the_project_is_asked_for_with_the_key(store: Store) -> None:
    secret = secret_of(store, "default")
    key = store.api_keys.find(secret)
    assert store.api_keys.find_in(secret, "default") == (key, {})
    assert store.api_keys.find_in(secret, "nowhere") == (key, None)
    assert store.api_keys.find_in(f"{secret}x", "default") == (None, None)


def test_a_key_of_before_there_were_roles_may_do_what_it_could(store: Store, redis: Redis) -> None:
    secret = secret_of(store, "default")
    (name, value), *_ = redis.hgetall(redis_keys.API_KEYS).items()
    record = json.loads(value)
    del record["role"]
    redis.hset(redis_keys.API_KEYS, name, json.dumps(record))
    key = store.api_keys.find(secret)
    assert key is not None and key.role == "manage"


def test_of_many_revoked_keys_the_oldest_are_removed_but_not_the_last_to_be_revoked(store: Store, redis: Redis) -> None:
    valid, last = secret_of(store, "default"), secret_of(store, "default")
    record = json.loads(next(iter(redis.hvals(redis_keys.API_KEYS))))
    for number in range(1001):
        younger = {"id": f"{number:04}", "revoked": True, "created_at": f"{3000 + number}-01-01T00:00:00Z"}
        redis.hset(redis_keys.API_KEYS, f"{number:04}", json.dumps(record | younger))
    store.api_keys.revoke(last.split("_")[1])
    ids = [key.id for key in store.api_keys.all()]
    assert ids == [valid.split("_")[1], last.split("_")[1], *(f"{number:04}" for number in range(1, 1001))]
    assert store.api_keys.find(valid) is not None
    assert store.api_keys.find(last) is None


def test_a_key_is_revoked_and_listed_although_redis_is_full(store: Store) -> None:
    secret = secret_of(store, "default")
    acting.set({"key": "k", "address": "", "request_id": "r"})
    with full(store.redis):
        store.api_keys.revoke(store.api_keys.all()[0].id)
        assert store.api_keys.find(secret) is None
        assert [key.revoked for key in store.api_keys.all()] == [True]
    assert [line.action for line in store.audit.newest("*", 10, None)] == ["key.revoke"]


def test_processes_that_start_together_agree_on_the_first_key_in_a_private_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "data" / "api-key"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store.api_keys.ensure_first, [path] * 8))
    (key,) = store.api_keys.all()
    assert key.projects == ["*"]
    assert store.api_keys.find(path.read_text().strip()) == key
    assert [file.name for file in path.parent.iterdir()] == ["api-key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_start_that_was_killed_half_way_is_finished_by_the_next(store: Store, redis: Redis, tmp_path: Path) -> None:
    path = tmp_path / "api-key"
    store.api_keys.ensure_first(path)
    redis.delete(redis_keys.API_KEYS)
    store.api_keys.ensure_first(path)
    assert store.api_keys.find(path.read_text().strip()) is not None


def test_a_lost_key_is_replaced_at_the_next_start(store: Store, tmp_path: Path) -> None:
    path, new = tmp_path / "api-key", tmp_path / "api-key.new"
    store.api_keys.ensure_first(path)
    first = path.read_text().strip()
    path.unlink()
    key_file.write(new, key_file.new_token())
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store.api_keys.ensure_first, [path] * 8))
    found = store.api_keys.find(path.read_text().strip())
    assert found is not None and (found.projects, found.role, found.name) == (["*"], "manage", "recovered")
    assert [file.name for file in tmp_path.iterdir()] == ["api-key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(store.api_keys.all()) == 2
    assert store.api_keys.find(first) is not None
    store.api_keys.ensure_first(path)
    assert len(store.api_keys.all()) == 2


def test_what_is_no_key_is_not_taken_up(store: Store, tmp_path: Path) -> None:
    (tmp_path / "api-key.new").write_text("gbx_short_x")
    store.api_keys.ensure_first(tmp_path / "api-key")
    assert [key.name for key in store.api_keys.all()] == ["first"]
