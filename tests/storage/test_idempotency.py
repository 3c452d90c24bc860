"""Tests of kept answers. tests/api/intake/test_idempotency.py tests which requests are the same."""

from typing import Any

import pytest
from redis import Redis

from gradebox.schemas import GraderRecord
from storage import idempotency, redis_keys
from storage.batch_plan import UploadedBatch
from storage.connection import script
from storage.graders import graders
from storage.idempotency import once
from storage.spool.chunks import Chunk
from storage.store import Store
from tests.storage.making import proved, wanted

ONE = once("default", "0123", "key", b"fingerprint", 3600)
CHUNKS = [Chunk(0, 3, 0, 1)]


def test_an_answer_is_kept_with_the_batch_or_not_at_all(store: Store, redis: Redis) -> None:
    def fails(pipe: object) -> None:
        raise RuntimeError("no jobs today")

    exact = [wanted(store, "exact")]
    with pytest.raises(RuntimeError):
        store.acceptance.accept(UploadedBatch(store.orphan_files.begin(), "default", exact, CHUNKS), fails, ONE)
    assert not redis.exists(ONE.name, redis_keys.TURNS, redis_keys.SOURCES)
    assert store.batches.newest("default", 10) == []

    new = UploadedBatch(store.orphan_files.begin(), "default", exact, CHUNKS)
    made = store.acceptance.accept(new, lambda pipe: None, ONE)
    assert store.acceptance.answered(ONE) == made == store.batches.get("default", made.id)


def test_a_request_that_is_done_between_two_looks_is_answered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    look = idempotency.answered
    made: list[GraderRecord] = []

    def late(*arguments: Any) -> Any:
        found = look(*arguments)
        monkeypatch.setattr(graders, "answered", look)
        made.append(store.graders.create("default", "exact", "exact", "", proved(), ONE))
        return found

    monkeypatch.setattr(graders, "answered", late)
    assert [store.graders.create("default", "exact", "exact", "", proved(), ONE)] == made


def test_an_answer_that_an_earlier_version_kept_is_given_again(store: Store, redis: Redis) -> None:
    new = UploadedBatch(store.orphan_files.begin(), "default", [wanted(store, "exact")], CHUNKS)
    batch = store.acceptance.accept(new, lambda pipe: None, ONE)
    redis.set(ONE.name, ONE.fingerprint.hex().encode() + b"\n" + batch.model_dump_json().encode())
    assert store.acceptance.answered(ONE) == batch


def test_of_many_answers_the_oldest_give_way(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST", 2)
    asked = [once(project, "0123", str(number), b"same", 3600) for number in range(4) for project in ("a", "b")]
    for request in asked:
        with redis.pipeline() as pipe:
            idempotency.keep(pipe, request, b"answer")
            pipe.execute()
    kept = [idempotency.answered(redis, request) is not None for request in asked]
    assert kept == [False] * 4 + [True] * 4
    assert redis.llen(redis_keys.answers("a")) == redis.llen(redis_keys.answers("b")) == 2


def test_a_key_that_is_used_again_after_its_answer_expired_keeps_the_new_one(redis: Redis) -> None:
    remember = script(redis, "keep_answer")

    def answer(key: str) -> None:
        remember(args=["p", key, b"answer", 3, 3600])

    answer("again")
    redis.delete("gradebox:answer:again")  # as when it expires
    for key in ("again", "second", "third"):
        answer(key)
    assert all(redis.exists(f"gradebox:answer:{key}") for key in ("again", "second", "third"))
