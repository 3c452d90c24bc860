"""Tests that the costs of asks are counted and that kept replies are bounded."""

import hashlib
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gradebox.outcome import OutcomeError, Spent
from gradebox.schemas import Spending
from storage import redis_keys
from storage.models.kept_replies import Keeping, digest
from storage.models.spending import Budget, BudgetStanding, CountedAsk, Totals, arguments, standing
from storage.store import Store
from tests.storage.making import accept, ahead, claim, finish, finish_all, spend, spent_by_batch, wanted

ASKED = CountedAsk("default", "model:judge", "polite", "b1")
KEEPING = Keeping(1 << 20, 3600)


def count(store: Store, asked: CountedAsk = ASKED, keeping: Keeping = KEEPING, **members: Any) -> BudgetStanding:
    return standing(store.spending.count(args=arguments(asked, keeping, **members)))


def keep(store: Store, number: int, reply: bytes, keeping: Keeping = KEEPING) -> None:
    count(store, keeping=keeping, spent=Spent(asks=1), keep=_digest(number), reply=reply)


def _digest(number: int) -> bytes:
    return digest("settings", request=str(number).encode())


def found(store: Store, number: int, keeping: Keeping = KEEPING) -> bytes | None:
    return count(store, keeping=keeping, find=_digest(number)).reply


def test_what_graders_that_come_and_go_cost_takes_no_more_and_more_room(store: Store) -> None:
    count(store, spent=Spent(asks=1))
    of_deleted: dict[Any, Any] = {f"grader:deleted-{number}:asks": 1 for number in range(50_000)}
    store.redis.hset(redis_keys.spent("default"), mapping=of_deleted)
    for number in range(3):
        count(store, ASKED._replace(asked=f"endpoint:e{number}", grader=f"new-{number}"), spent=Spent(asks=1))
        count(store, spent=Spent(asks=1))
    by = store.spending.told("default").by
    assert (by["grader:polite"].asks, by["model:judge"].asks) == (4, 4)
    assert (by["grader:(rest)"].asks, by["endpoint:(rest)"].asks) == (3, 3)
    assert not [name for name in by if name.startswith(("grader:new", "endpoint:e"))]


def test_a_reply_is_kept_for_its_project(store: Store) -> None:
    assert found(store, 1) is None
    keep(store, 1, b'{"reply":1}')
    assert found(store, 1) == b'{"reply":1}'
    assert count(store, ASKED._replace(project="other"), find=_digest(1)).reply is None
    keep(store, 1, b'{"reply":2}')  # the first of two simultaneous replies stays, because others have seen it
    assert found(store, 1) == b'{"reply":1}'


def test_what_a_reply_belongs_to_is_told_apart() -> None:
    of_earlier_release = hashlib.sha256(msgspec.msgpack.encode(("a",)) + b"bc").digest()[:20]
    others = {digest("a", "b", request=b"c"), digest("ab", "", request=b"c"), digest("a", request=b"bc")}
    assert len(others | {of_earlier_release}) == 4


def test_the_oldest_are_dropped_where_there_is_no_room(store: Store) -> None:
    keeping = Keeping(20_000, 3600)
    for number in range(100):
        keep(store, number, _noise(1000), keeping)
    kept = [number for number in range(100) if found(store, number) is not None]
    assert 10 < len(kept) < 20
    assert kept == list(range(100 - len(kept), 100))
    assert int(store.redis.hget(redis_keys.kept_replies("default"), "bytes") or 0) <= 20_000
    assert store.redis.llen(redis_keys.kept_order("default")) == len(kept)
    keep(store, 1000, _noise(30_000), keeping)  # larger than the bound of all replies
    assert found(store, 1000) is None
    assert found(store, 99) is not None


def test_a_reply_is_kept_for_its_time(store: Store) -> None:
    keep(store, 1, b"old")
    assert found(store, 1, Keeping(1 << 20, 60)) == b"old"
    store.redis.hset(redis_keys.kept_replies("default"), _digest(1), _aged(store, 7200))
    assert found(store, 1) is None
    assert 0 < store.redis.ttl(redis_keys.kept_replies("default")) <= 3600
    head = store.redis.lpop(redis_keys.kept_order("default"))
    assert isinstance(head, bytes)
    store.redis.lpush(redis_keys.kept_order("default"), (int.from_bytes(head[:4]) - 7200).to_bytes(4) + head[4:])
    keep(store, 2, b"new")
    assert store.redis.hget(redis_keys.kept_replies("default"), _digest(1)) is None
    assert store.redis.llen(redis_keys.kept_order("default")) == 1


def test_costs_are_counted_for_whom_they_are_for(store: Store) -> None:
    spent = Spent(1, 0, 1000, 200, 0.1)
    for _ in range(30):
        count(store, spent=spent)
    count(store, ASKED._replace(grader="other", batch=""), spent=Spent(1, 0, 5, 5, 0.5))
    thirty = {"asks": 30, "input_tokens": 30_000, "output_tokens": 6000, "cost:USD": 3_000_000_000}  # sums are exact
    assert spent_by_batch(store, "b1") == thirty
    told = store.spending.told("default")
    assert told.total == told.by["model:judge"] == _spending(31, 30_005, 6005, 3.5)
    assert told.by["grader:polite"] == _spending(30, 30_000, 6000, 3.0)
    assert told.by["grader:other"] == _spending(1, 5, 5, 0.5)
    assert store.spending.told("nobody").total == _spending(0, 0, 0)


def test_the_day_of_a_cost_is_not_of_the_clock_of_the_machine_that_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.spending.set_budget("default", Budget(tokens=1000, period="month"))
    with ahead(monkeypatch):
        assert count(store, spent=Spent(1, 0, 1000, 0, 0.1)).project.tokens == 1000
    assert store.spending.used_up("default") == "1,000 tokens a month"


def test_what_a_batch_costs_is_told_by_grader_as_long_as_there_is_the_batch(store: Store) -> None:
    batch = accept(store, 10, wanted(store, "a"), wanted(store, "b"))
    lease = claim(store)
    spend(store, batch, 1)
    both = Spending(asks=2, kept=1, input_tokens=30, output_tokens=3, usd=0.5)
    assert spent_by(store, batch) == [None, both]
    store.batches.cancel("default", batch)
    spend(store, batch)  # of an ask that was under way
    assert spent_by(store, batch) == [both, both]
    store.freezer.freeze(batch)
    assert spent_by(store, batch) == [both, both]
    spend(store, batch, 1, Spent(8, 0, 70, 7, 1.5))
    more = Spending(asks=10, kept=1, input_tokens=100, output_tokens=10, usd=2.0)
    assert spent_by(store, batch) == [both, more]
    assert not finish(store, lease)
    assert store.redis.ttl(redis_keys.spent_by_batch(batch)) == -1
    store.batches.delete("default", batch)
    assert not store.redis.exists(redis_keys.spent_by_batch(batch))
    spend(store, batch)
    assert 0 < store.redis.ttl(redis_keys.spent_by_batch(batch)) <= 86400


def test_a_retry_adds_what_it_costs(store: Store) -> None:
    batch = accept(store, 10, wanted(store, "a"))
    away = OutcomeError("model", "the server is away", retryable=True, cause="unreachable")
    finish_all(store, lambda one: replace(one, score=None, error=away, spent=Spent(9)))
    spend(store, batch)
    store.freezer.freeze(batch)
    store.retries.begin("default", batch, lambda lane, units: None)
    spend(store, batch)
    finish_all(store)
    store.freezer.freeze(batch)
    both = Spending(asks=4, kept=2, input_tokens=60, output_tokens=6, usd=1.0)
    assert spent_by(store, batch) == [both]


def spent_by(store: Store, batch: str) -> list[Spending | None]:
    return [one.spent for one in store.batches.get("default", batch).summary]


def test_a_repeated_call_counts_nothing(store: Store) -> None:
    """A call is known by its process, round trip and number. That of an earlier round trip is a repeated one."""
    keep(store, 1, b'{"reply":1}')
    asked = arguments(ASKED, KEEPING, Spent(1, 0, 10, 5, 0.25))
    looked_up = arguments(ASKED, KEEPING, find=_digest(1))
    calls = [("1-a", 1, 0), ("1-a", 1, 1), ("1-a", 1, 0), ("1-b", 1, 0), ("1-a", 7, 2), ("1-a", 1, 3), ("1-a", 7, 2)]
    told = [standing(store.spending.count(args=[*asked, *identity])) for identity in calls]
    assert [each.batch.tokens for each in told] == [15, 30, 30, 45, 60, 60, 60]
    replies = [standing(store.spending.count(args=[*looked_up, "1-a", 8, number])).reply for number in (5, 5)]
    assert replies == [b'{"reply":1}'] * 2
    assert (spent_by_batch(store, "b1")["asks"], spent_by_batch(store, "b1")["kept"]) == (1 + 4 + 1, 1)
    assert store.redis.hlen("gradebox:counted:1-a") == 2


def test_what_is_spent_is_told_with_each_count(store: Store) -> None:
    told = count(store, spent=Spent(1, 0, 10, 5, 0.25))
    assert (told.batch, told.budget, told.project) == (Totals(15, 0.25), None, Totals(0, 0.0))
    budget = Budget(usd=1.0, period="month")
    store.spending.set_budget("default", budget)
    told = count(store, spent=Spent(1, 0, 10, 5, 0.75))
    assert (told.budget, told.project) == (budget, Totals(30, 1.0))
    assert told.project.used_up(budget)
    assert store.spending.budget("default") == budget
    store.spending.set_budget("default", None)
    assert store.spending.budget("default") is None


def test_a_budget_is_over_when_either_is_spent() -> None:
    assert not Totals(10**9, 10**9).used_up(Budget())
    assert Totals(100, 0.0).used_up(Budget(tokens=100)) == "100 tokens"
    assert not Totals(99, 0.5).used_up(Budget(usd=1.0, tokens=100))
    assert Totals(1, 1.0).used_up(Budget(usd=1.0, tokens=100)) == "1 USD"


def _spending(asks: int, input_tokens: int, output_tokens: int, usd: float = 0.0) -> Spending:
    return Spending(asks=asks, kept=0, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)


def _noise(size: int) -> bytes:
    """Bytes that cannot be compressed."""
    return b"".join(hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(size // 32))


def _aged(store: Store, seconds: int) -> bytes:
    value = store.redis.hget(redis_keys.kept_replies("default"), _digest(1))
    assert isinstance(value, bytes)
    return (int.from_bytes(value[:4]) - seconds).to_bytes(4) + value[4:]
