"""Tests that the processes that ask a model share its limits."""

from time import sleep, time

from gradebox.schemas import ModelDefaults
from storage import redis_keys
from storage.connection import text
from storage.models.model_limits import AskLimits, Demand, Share, arguments
from storage.store import Store

LIMITS = AskLimits(16)


def share(
    store: Store, process: str, demand: Demand, limits: AskLimits = LIMITS, gone_ms: int = 10_000, account: int = 1
) -> Share:
    told = arguments("default", "model:judge", account, process, limits, demand, gone_ms)
    return Share(*store.model_limits.share(args=told))


def register(store: Store) -> int:
    """Stores the model; returns its account."""
    store.models.create("default", "judge", "http://a/v1", "m", "", ModelDefaults(), 5)
    return store.models.access("default", "judge").server.account


def wants(asks: int, sent: int = 0, **members: int) -> Demand:
    return Demand(asks, sent, asks - sent, **members)


def test_one_process_has_what_it_wants(store: Store) -> None:
    assert share(store, "a", wants(3)) == Share(3, 3, 0, 0)
    assert share(store, "a", wants(100)).at_once == 16
    assert share(store, "a", wants(0)).at_once == 0
    assert store.redis.hkeys(redis_keys.limits("default", "model:judge", 1)) == []


def test_processes_share(store: Store) -> None:
    assert share(store, "a", wants(100)).at_once == 16
    assert share(store, "b", wants(100)).at_once == 0  # all are lent
    assert share(store, "a", wants(100, sent=16)).at_once == 8  # a returns its places as requests are answered
    assert share(store, "b", wants(100)).at_once == 0
    assert share(store, "a", wants(100, sent=8)).at_once == 8
    assert share(store, "b", wants(100)).at_once == 8
    assert share(store, "c", wants(2)).at_once == 0
    assert share(store, "a", wants(100, sent=8)).at_once == 7
    assert share(store, "a", wants(100, sent=7)).at_once == 7
    assert share(store, "c", wants(2)).at_once == 1


def test_no_more_than_the_limit_is_ever_lent(store: Store) -> None:
    lent = dict.fromkeys("abcde", 0)
    for turn in range(200):
        process = "abcde"[turn * 7 % 5]
        sent = lent[process]
        lent[process] = share(store, process, wants(turn % 23 + sent, sent=sent)).at_once
        assert sum(lent.values()) <= 16


def test_one_place_goes_round(store: Store) -> None:
    one = AskLimits(1)
    had = {"a": 0, "b": 0, "c": 0}
    holds = ""
    for _ in range(60):
        for process in had:
            sent = 1 if holds == process else 0
            if sent:
                holds = ""  # its request is answered before the next turn
            given = share(store, process, wants(5, sent=0), one).at_once
            if given and not holds:
                holds = process
                had[process] += 1
    assert min(had.values()) > 5


def test_what_a_killed_process_held_comes_back(store: Store) -> None:
    assert share(store, "a", wants(100)).at_once == 16
    assert share(store, "b", wants(4), gone_ms=100).at_once == 0
    sleep(0.15)
    assert share(store, "b", wants(4), gone_ms=100).at_once == 4
    assert share(store, "b", wants(100, sent=4)).at_once == 16


def test_requests_a_minute(store: Store) -> None:
    limits = AskLimits(100, requests_per_minute=600)
    assert share(store, "a", wants(80), limits).begun == 50  # the requests of five seconds
    told = share(store, "a", wants(30), limits)
    assert told.begun <= 1
    assert 0 < told.later_ms <= 100
    sleep(0.5)
    share(store, "b", wants(50), limits)
    assert 1 <= share(store, "a", wants(50), limits).begun <= 5


def test_tokens_a_minute(store: Store) -> None:
    limits = AskLimits(100, tokens_per_minute=12_000)  # 200 tokens a second, 1000 at once
    assert share(store, "a", wants(80, guess=100), limits).begun == 10
    assert share(store, "a", wants(80, guess=100), limits).begun <= 1  # the tokens gained since the first call
    told = share(store, "a", wants(80, guess=100, missed=2000), limits)  # ten requests took three times the guess
    assert told.begun == 0
    assert told.later_ms > 9000


def test_a_refusal_slows_all_down(store: Store) -> None:
    assert share(store, "a", wants(100)).at_once == 16
    told = share(store, "a", wants(100, sent=16, pause_ms=2000))
    assert (told.at_once, told.paused_ms) == (8, 2000)
    assert 1900 < share(store, "b", wants(5)).paused_ms <= 2000
    told = share(store, "b", wants(5, pause_ms=100))  # a refusal of a request that was sent before the pause
    assert 1900 < told.paused_ms <= 2000
    assert share(store, "a", wants(100, sent=8)).at_once == 4  # half of eight: both refusals count as one


def test_a_refusal_without_a_time_waits_longer_each_time(store: Store) -> None:
    first = share(store, "a", wants(100, pause_ms=-1)).paused_ms
    assert share(store, "b", wants(100, pause_ms=-1)).paused_ms <= first
    sleep(first / 1000)
    assert share(store, "a", wants(100, pause_ms=-1)).paused_ms > first


def test_it_is_told_which_servers_are_waited_for(store: Store) -> None:
    asks = ["grader:other@1", "model:another", "model:judge"]
    account = register(store)
    share(store, "a", wants(5, away_ms=2_000), account=account)
    assert store.model_limits.awaited("default", asks) == []  # 2 s do not count as a wait
    share(store, "a", wants(5, away_ms=40_000), account=account)
    (awaited,) = store.model_limits.awaited("default", asks)
    assert str(awaited) == "model judge has not answered for 40 s"
    assert store.model_limits.awaited("other", asks) == []
    share(store, "a", wants(5), account=account)
    assert store.model_limits.awaited("default", asks) == []
    share(store, "a", wants(5, pause_ms=30_500), account=account)
    (awaited,) = store.model_limits.awaited("default", asks)
    assert str(awaited) == "model judge accepts no requests for 30 s"
    store.models.update("default", "judge", {"base_url": "http://b/v1"})
    assert store.model_limits.awaited("default", asks) == []  # another server is asked, which was not paused
    store.models.delete("default", "judge")
    assert store.model_limits.awaited("default", asks) == []


def test_what_was_told_long_ago_is_not_true_any_more(store: Store) -> None:
    account = register(store)
    share(store, "a", wants(5, away_ms=40_000), account=account)
    key = redis_keys.limits("default", "model:judge", account)
    assert store.model_limits.awaited("default", ["model:judge"])
    told = int(store.redis.hget(key, "told") or 0)
    store.redis.hset(key, "told", told - 20_000)
    assert store.model_limits.awaited("default", ["model:judge"]) == []


def test_a_clock_that_is_set_back_stops_no_model(store: Store) -> None:
    key, limits = redis_keys.limits("default", "model:judge", 1), AskLimits(64, requests_per_minute=60)
    share(store, "a", wants(8, pause_ms=1000), limits)
    for name in ("at", "struck", "paused"):  # as if the clock was a day ahead when they were stored
        store.redis.hincrby(key, name, 86_400_000)
    now = share(store, "a", wants(8), limits)
    assert now.at_once == 8, "64, halved once, are more than the 8 that it wants"
    assert now.later_ms < 2000
    assert 3_590_000 < now.paused_ms <= 3_600_000
    at, struck, paused = (int(value or 0) for value in store.redis.hmget(key, "at", "struck", "paused"))
    assert max(at, struck) <= time() * 1000 + 1000
    assert paused <= time() * 1000 + 3_601_000, "the pause would move along with the clock"


def test_a_process_that_died_before_the_clock_was_set_back_keeps_no_share(store: Store) -> None:
    key = redis_keys.limits("default", "model:judge", 1)
    assert share(store, "a", wants(100)).at_once == 16
    held = text(store.redis.hget(key, "p:a") or b"").rpartition(":")[0]
    store.redis.hset(key, "p:a", f"{held}:{int(time() * 1000) + 86_400_000}")
    assert share(store, "b", wants(100)).at_once == 16
