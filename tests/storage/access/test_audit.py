from collections.abc import Iterator
from typing import Any

import pytest

from storage import redis_keys
from storage.access.audit import Audit, acting
from storage.store import Store


@pytest.fixture(autouse=True)
def somebody() -> Iterator[None]:
    """Sets the actor of these tests."""
    token = acting.set({"key": "0123", "address": "192.0.2.1", "request_id": "abc"})
    yield
    acting.reset(token)


def test_batches_push_no_other_line_out(store: Store) -> None:
    audit = Audit(store.redis, lines=5)
    with store.redis.pipeline() as pipe:
        audit.write(pipe, "default", "grader.create", "exact")
        for number in range(500):
            audit.write(pipe, "default", "batch.create", str(number))
        pipe.execute()
    actions = [line.action for line in audit.newest("default", 1000)]
    assert actions[-1] == "grader.create"
    assert len(actions) < 400


def test_pages_lose_no_line_where_two_have_one_id(store: Store) -> None:
    fields: dict[Any, Any] = {"key": "k", "address": "a", "request_id": "r", "object": "o", "detail": ""}
    for number in range(1, 6):
        store.redis.xadd(redis_keys.audit("default"), {**fields, "action": f"grader.{number}"}, id=f"{number}-0")
        of_batch = {**fields, "action": f"batch.{number}"}
        store.redis.xadd(redis_keys.audit_of_batches("default"), of_batch, id=f"{number}-0")
    seen: list[str] = []
    before = None
    while page := store.audit.newest("default", 3, before):
        seen += [line.action for line in page]
        before = page[-1].id
    assert sorted(seen) == sorted(f"{kind}.{number}" for kind in ("grader", "batch") for number in range(1, 6))
