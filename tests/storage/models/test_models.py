"""Tests of the storage of models and endpoints, and their API keys."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gradebox.schemas import EndpointTrial, ModelDefaults, ModelTrial
from storage import redis_keys
from storage.access.quotas import Quotas
from storage.errors import Conflict, KeyNeeded, NotFound, Refused
from storage.models.endpoints import Endpoints
from storage.models.models import Changes, Models
from storage.models.secret_key import SecretKey, SecretKeyError
from storage.store import Store

SECRET = "sk-very-secret-of-a-model-0123456789"
URL = "https://api.example.com/v1"
HEADERS = {"X-API-Key": SECRET, "X-Team": "blue team"}
PASSED = ModelTrial(passed=True, structured_output=True, logprobs=False, duration_ms=1)


def create(models: Models, key: str = "judge", api_key: str = SECRET) -> None:
    models.create("default", key, URL, "small", api_key, ModelDefaults(temperature=0), 30)


def test_a_model_is_kept_without_its_key(store: Store) -> None:
    create(store.models)
    kept = store.models.get("default", "judge")
    assert (kept.base_url, kept.model, kept.has_api_key, kept.defaults.temperature) == (URL, "small", True, 0)
    assert store.models.all("default") == [kept]
    assert store.models.all("other") == []
    assert SECRET not in kept.model_dump_json()
    access = store.models.access("default", "judge")
    assert access.api_key == SECRET
    assert SECRET not in repr(access)
    for name in store.redis.scan_iter("*"):
        assert SECRET.encode() not in (store.redis.dump(name) or b"")
    with pytest.raises(Conflict):
        create(store.models)
    store.models.delete("default", "judge")
    for ask in (store.models.get, store.models.access, store.models.delete):
        with pytest.raises(NotFound):
            ask("default", "judge")


def test_a_key_does_not_go_to_a_server_that_it_was_not_given_for(store: Store) -> None:
    create(store.models)
    with pytest.raises(KeyNeeded):
        store.models.update("default", "judge", {"base_url": "https://evil.example.org/v1"})
    assert store.models.get("default", "judge").base_url == URL
    changed = store.models.update("default", "judge", {"base_url": "https://b.example.org/v1", "api_key": "other"})
    assert changed.has_api_key
    assert store.models.access("default", "judge").api_key == "other"
    assert not store.models.update("default", "judge", {"api_key": ""}).has_api_key
    assert store.models.update("default", "judge", {"base_url": URL}).base_url == URL
    assert store.models.access("default", "judge").api_key == ""


def test_who_writes_to_redis_cannot_move_a_key(store: Store) -> None:
    create(store.models)
    record = store.redis.hget(redis_keys.models("default"), "judge")
    assert isinstance(record, bytes)
    store.redis.hset(
        redis_keys.models("default"), "judge", record.replace(URL.encode(), b"https://evil.example.org/v1")
    )
    with pytest.raises(SecretKeyError, match="was changed"):
        store.models.access("default", "judge")
    store.redis.hset(redis_keys.models("other"), "judge", record)
    with pytest.raises(SecretKeyError, match="was changed"):
        store.models.access("other", "judge")


def test_headers_are_kept_encrypted(store: Store) -> None:
    kept = store.endpoints.create("default", "reward", URL, "", 30, HEADERS)
    assert kept.header_names == ["X-API-Key", "X-Team"]
    assert store.endpoints.get("default", "reward") == kept
    access = store.endpoints.access("default", "reward")
    assert access.headers == HEADERS
    stored = str(store.redis.hgetall(redis_keys.endpoints("default")))
    for value in HEADERS.values():
        assert value not in repr(access) + kept.model_dump_json() + stored
        assert all(value.encode() not in (store.redis.dump(name) or b"") for name in store.redis.scan_iter("*"))
    store.endpoints.note_trial(
        "default", "reward", access.server.revision, EndpointTrial(passed=True, reward=1, duration_ms=1)
    )
    assert store.endpoints.update("default", "reward", {"headers": {**HEADERS}}).tested_at is not None
    assert store.endpoints.access("default", "reward").server.revision == access.server.revision

    changed = store.endpoints.update("default", "reward", {"headers": {"X-API-Key": "other"}})
    assert (changed.header_names, changed.tested_at) == (["X-API-Key"], None)
    replaced = store.endpoints.access("default", "reward")
    assert replaced.headers == {"X-API-Key": "other"}
    assert replaced.server.revision != access.server.revision
    assert replaced.server.account != access.server.account
    assert store.endpoints.update("default", "reward", {"headers": {}, "url": f"{URL}/v2"}).header_names == []
    assert store.endpoints.access("default", "reward").headers == {}


def test_a_key_and_a_header_authorization_exclude_each_other(store: Store) -> None:
    header = {"authorization": "Basic YTpi"}
    with pytest.raises(Refused, match="`api_key`"):
        store.endpoints.create("default", "reward", URL, SECRET, 30, header)
    store.endpoints.create("default", "reward", URL, SECRET, 30)
    with pytest.raises(Refused, match="empty `api_key`"):
        store.endpoints.update("default", "reward", {"headers": header})
    assert store.endpoints.update("default", "reward", {"headers": header, "api_key": ""}).header_names == [*header]
    with pytest.raises(Refused, match="`headers` without it"):
        store.endpoints.update("default", "reward", {"api_key": SECRET})
    assert store.endpoints.access("default", "reward").sent_headers == header


@pytest.mark.parametrize(("api_key", "headers"), [(SECRET, {}), ("", {"X-API-Key": SECRET})])
def test_a_secret_of_an_endpoint_goes_nowhere_else(store: Store, api_key: str, headers: dict[str, str]) -> None:
    store.endpoints.create("default", "reward", URL, api_key, 30, headers)
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


def test_who_writes_to_redis_cannot_send_a_header_as_another_or_as_the_key(store: Store) -> None:
    store.endpoints.create("default", "reward", URL, SECRET, 30, {"X-API-Key": SECRET})
    record = json.loads(store.redis.hget(redis_keys.endpoints("default"), "reward") or b"")
    key, header = record["sealed_key"], record["sealed_headers"]["X-API-Key"]
    moved: list[dict[str, Any]] = [
        {"sealed_headers": {"X-Forwarded-For": header}},
        {"sealed_headers": {"X-API-Key": key}},
        {"sealed_key": header},
    ]
    for change in moved:
        store.redis.hset(redis_keys.endpoints("default"), "reward", json.dumps({**record, **change}))
        with pytest.raises(SecretKeyError, match="was changed"):
            store.endpoints.access("default", "reward")


def test_what_was_found_out_is_kept_until_the_model_changes(store: Store) -> None:
    create(store.models)
    revision = store.models.access("default", "judge").server.revision
    store.models.note_trial("default", "judge", revision, PASSED)
    tested = store.models.get("default", "judge")
    assert (tested.structured_output, tested.logprobs) == (True, False)
    assert tested.tested_at is not None
    assert store.models.update("default", "judge", {"model": "large"}).tested_at is None
    store.models.note_trial("default", "judge", revision, PASSED)  # a trial of the earlier settings
    assert store.models.get("default", "judge").tested_at is None
    store.models.delete("default", "judge")
    store.models.note_trial("default", "judge", revision, PASSED)
    assert store.models.all("default") == []


def test_limits_and_prices_change_no_answer(store: Store) -> None:
    create(store.models)
    before = store.models.access("default", "judge").server
    assert (before.max_concurrency, before.requests_per_minute, before.price, before.keep_replies) == (
        16, None, None, True
    )  # fmt: skip
    store.models.note_trial("default", "judge", before.revision, PASSED)
    limits: Changes = {"requests_per_minute": 60, "tokens_per_minute": 90_000, "keep_replies": False}
    shown = store.models.update("default", "judge", {**limits, "input_price": 0.15, "output_price": 0.6})
    assert (shown.input_price, shown.output_price, shown.keep_replies, shown.structured_output) == (
        0.15, 0.6, False, True
    )  # fmt: skip
    model = store.models.access("default", "judge").server
    assert (model.revision, model.structured_output, model.key) == (before.revision, True, "judge")
    assert (model.requests_per_minute, model.tokens_per_minute, model.price) == (60, 90_000, (0.15, 0.6))
    assert store.models.update("default", "judge", {"requests_per_minute": None}).requests_per_minute is None
    assert store.models.update("default", "judge", {"max_concurrency": 4}).tested_at == shown.tested_at
    model = store.models.access("default", "judge").server
    assert model.revision != before.revision  # the model needs new connections
    assert model.structured_output is True


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({"base_url": "https://b.example.org/v1", "api_key": SECRET}, True),
        ({"api_key": "of-another-account"}, True),
        ({"api_key": SECRET}, False),
        ({"model": "large"}, True),
        (
            {
                "max_concurrency": 4,
                "timeout_s": 60,
                "input_price": 1,
                "output_price": 2,
                "defaults": ModelDefaults(seed=1),
            },
            False,
        ),
    ],
)
def test_another_server_or_account_has_other_limits(store: Store, change: Changes, is_another: bool) -> None:
    create(store.models)
    before = store.models.access("default", "judge").server.account
    store.models.update("default", "judge", change)
    assert (store.models.access("default", "judge").server.account != before) is is_another


def test_what_is_there_already_is_no_change(store: Store) -> None:
    create(store.models)
    revision = store.models.access("default", "judge").server.revision
    store.models.note_trial("default", "judge", revision, PASSED)
    same: Changes = {"base_url": URL, "model": "small", "api_key": SECRET, "defaults": ModelDefaults(temperature=0)}
    assert store.models.update("default", "judge", same).structured_output is True
    assert store.models.access("default", "judge").server.revision == revision
    assert store.models.update("default", "judge", {**same, "api_key": "other"}).structured_output is None
    assert store.models.access("default", "judge").api_key == "other"


def test_a_key_or_headers_take_the_place_of_those_that_cannot_be_read(store: Store, tmp_path: Path) -> None:
    create(store.models)
    store.endpoints.create("default", "reward", URL, "", 30, HEADERS)
    of = (store.redis, store.audit, Quotas(), SecretKey(tmp_path / "another"))
    models, endpoints = Models(*of), Endpoints(*of)
    assert models.update("default", "judge", {"api_key": SECRET}).has_api_key
    assert models.access("default", "judge").api_key == SECRET
    assert endpoints.get("default", "reward").header_names == [*HEADERS]
    endpoints.update("default", "reward", {"headers": HEADERS})
    assert endpoints.access("default", "reward").headers == HEADERS


def test_a_model_made_again_is_another(store: Store) -> None:
    create(store.models)
    before = store.models.access("default", "judge").server
    store.models.delete("default", "judge")
    create(store.models)
    after = store.models.access("default", "judge").server
    assert after.revision != before.revision
    assert after.account != before.account


def test_a_model_of_an_older_service_can_be_asked(store: Store) -> None:
    create(store.models)
    record = json.loads(store.redis.hget(redis_keys.models("default"), "judge") or b"")
    del record["sealed_headers"]
    assert record["base_url"] == URL
    for later in (
        "max_concurrency",
        "requests_per_minute",
        "tokens_per_minute",
        "input_price",
        "output_price",
        "keep_replies",
    ):
        del record[later]
    store.redis.hset(redis_keys.models("default"), "judge", json.dumps(record))
    access = store.models.access("default", "judge")
    assert (access.server.url, access.api_key) == (URL, SECRET)
    assert (access.server.max_concurrency, access.server.price) == (16, None)


def test_the_key_file_is_made_once_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret-key"
    sealed: list[str] = []
    threads = [threading.Thread(target=lambda: sealed.append(SecretKey(path).seal(SECRET, "c"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["secret-key"]
    assert {SecretKey(path).open(one, "c") for one in sealed} == {SECRET}
    assert len(set(sealed)) == 8


def test_a_key_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    sealed = SecretKey(tmp_path / "a").seal(SECRET, "c")
    SecretKey(tmp_path / "b").seal(SECRET, "c")
    for path in (tmp_path / "b", tmp_path / "none"):
        with pytest.raises(SecretKeyError, match="GRADEBOX_SECRET_KEY_FILE"):
            SecretKey(path).open(sealed, "c")
    assert not (tmp_path / "none").exists(), "a key that was never used opens nothing"
    (tmp_path / "c").write_text("not a key")
    with pytest.raises(SecretKeyError, match="holds no key"):
        SecretKey(tmp_path / "c").open(sealed, "c")
    (tmp_path / "d").mkdir()
    with pytest.raises(SecretKeyError, match="cannot be read"):
        SecretKey(tmp_path / "d").open(sealed, "c")
