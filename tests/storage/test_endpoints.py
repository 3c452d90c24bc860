"""Tests of the storage of endpoints and their API keys."""

import pytest

from storage import redis_keys
from storage.endpoints import Endpoints
from storage.errors import Conflict, KeyNeeded, NotFound
from storage.secret_key import SecretKeyError
from storage.store import Store

SECRET = "secret-of-an-endpoint-0123456789"
URL = "https://rewards.example.com/mine"


def create(endpoints: Endpoints, key: str = "reward") -> None:
    endpoints.create("default", key, URL, SECRET, 30, 4, 600)


def test_an_endpoint_is_kept_without_its_key(store: Store) -> None:
    create(store.endpoints)
    kept = store.endpoints.get("default", "reward")
    assert (kept.url, kept.has_api_key, kept.max_concurrency, kept.requests_per_minute) == (URL, True, 4, 600)
    assert store.endpoints.all("default") == [kept]
    assert store.models.all("default") == []
    access = store.endpoints.access("default", "reward")
    assert (access.key, access.url, access.api_key, access.timeout_s) == ("reward", URL, SECRET, 30)
    assert SECRET not in kept.model_dump_json() + repr(access)
    for name in store.redis.scan_iter("*"):
        assert SECRET.encode() not in (store.redis.dump(name) or b"")
    with pytest.raises(Conflict, match="has the endpoint 'reward' already"):
        create(store.endpoints)
    store.endpoints.delete("default", "reward")
    for ask in (store.endpoints.get, store.endpoints.access, store.endpoints.delete):
        with pytest.raises(NotFound, match="no endpoint"):
            ask("default", "reward")


def test_its_key_goes_nowhere_else(store: Store) -> None:
    create(store.endpoints)
    with pytest.raises(KeyNeeded, match="endpoint 'reward'"):
        store.endpoints.update("default", "reward", {"url": "https://evil.example.org"})
    record = store.redis.hget(redis_keys.endpoints("default"), "reward")
    assert isinstance(record, bytes)
    store.redis.hset(
        redis_keys.endpoints("default"), "reward", record.replace(URL.encode(), b"https://evil.example.org")
    )
    with pytest.raises(SecretKeyError, match="was changed"):
        store.endpoints.access("default", "reward")
    for project, key in (("default", "other"), ("another", "reward")):
        store.redis.hset(redis_keys.endpoints(project), key, record.replace(b'"reward"', f'"{key}"'.encode()))
        with pytest.raises(SecretKeyError, match="was changed"):
            store.endpoints.access(project, key)
    store.redis.hset(redis_keys.models("default"), "reward", record.replace(b'"url"', b'"model":"m","base_url"'))
    with pytest.raises(SecretKeyError, match="was changed"):
        store.models.access("default", "reward")
