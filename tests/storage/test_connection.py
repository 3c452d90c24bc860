import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec
import pytest
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from gradebox.outcome import Outcome
from gradebox.schemas import BatchBudget, EnvironmentBuild, ModelDefaults
from runtime.errors import CannotStartYet
from storage import redis_keys
from storage.batch_plan import AskTerms, UploadedBatch
from storage.connection import FORMAT, check_format, is_away, read_snapshot, text, trouble_of, write_trouble
from storage.environments.environment_builds import Made
from storage.errors import UnknownFormat
from storage.idempotency import Once, once
from storage.models.spending import Budget
from storage.processes import ProcessRecord
from storage.settings import StorageSettings
from storage.spool.chunks import Chunk
from storage.store import Store, first_start, open_store
from tests.storage.making import accept, claim, ended, failed, finish, finish_all, full, load_keys, outcomes_of, wanted
from tests.waiting import eventually


@pytest.fixture
def format_1(redis: Redis) -> dict[str, str]:
    """What a gradebox of format 1 left: a batch that is over, one with a lent and a pending unit, and a queued one."""
    found = load_keys(redis, "format_1.json")
    redis.hset(f"gradebox:batch:{found['running']}:values:0", mapping=dict.fromkeys(range(1000), 1))
    return found


def test_data_of_a_newer_gradebox_is_refused(redis: Redis) -> None:
    redis.set(redis_keys.FORMAT, 99)
    with pytest.raises(UnknownFormat, match="format 99"):
        check_format(redis)


def test_data_that_processes_of_an_older_gradebox_work_with_is_not_converted(
    redis: Redis, store: Store, storage_settings: StorageSettings
) -> None:
    older = ProcessRecord("worker", "here:1")
    store.processes.report(older)
    redis.set(redis_keys.FORMAT, 4)
    with pytest.raises(CannotStartYet, match="still work with data that is to be converted: here:1"):
        open_store(storage_settings)
    assert redis.get(redis_keys.FORMAT) == b"4"
    store.processes.leave(older)
    open_store(storage_settings)
    assert redis.get(redis_keys.FORMAT) == str(FORMAT).encode()


def test_batches_of_an_older_gradebox_are_finished(format_1: dict[str, str], redis: Redis, store: Store) -> None:
    check_format(redis)
    check_format(redis)  # as every process of a service does
    assert redis.zrange(redis_keys.UNFROZEN, 0, -1) == [format_1["over"].encode()]
    before = store.batches.get("default", format_1["over"])
    store.freezer.freeze(format_1["over"])
    assert store.batches.get("default", format_1["over"]) == before

    assert int(redis.get(redis_keys.FORMAT) or 0) == FORMAT
    assert store.backlog.usage("default").waiting.completions == 2500 - 1000 + 1500
    redis.zadd(redis_keys.LEASES, {format_1["lease"]: 1}, xx=True)  # the lease has run out
    store.leases.beat([])
    finish_all(store)
    for name, mean in (("running", 1249.5), ("queued", 749.5)):
        (summary,) = store.batches.get("default", format_1[name]).summary
        assert (summary.mean, summary.minimum, summary.maximum) == (mean, 0.0, 2 * mean)
        assert sum(part.count for part in summary.histogram) == summary.scored == 2 * mean + 1
        assert summary.run_ms_mean == 0.5
    for batch, threads in ((format_1["over"], 10), (format_1["running"], 2500), (format_1["queued"], 1500)):
        found = store.batches.get("default", batch)
        assert (found.state, found.done, found.scored) == ("finished", threads, threads)
    assert list(ended(redis)) == [format_1[name] for name in ("over", "running", "queued")]
    assert not redis.exists(redis_keys.TURNS, redis_keys.WAITING, redis_keys.ACTIVE, "gradebox:rotation")


def to_format_3(redis: Redis, once: Once) -> None:
    """Changes frozen batches, the ends of batches and kept answers back to format 3."""
    over = ended(redis)
    redis.delete(redis_keys.ENDED)
    redis.zadd(redis_keys.ENDED, {batch: int(entry.partition("-")[0]) / 1000 for batch, entry in over.items()})
    kept: Any = redis.hgetall(redis_keys.FROZEN)
    for batch, value in kept.items():
        head, _, record = value.partition(b"\n")
        redis.set(f"gradebox:frozen:{text(batch)}", head.rpartition(b":")[0] + b"\n" + record)
    redis.delete(redis_keys.FROZEN)
    digest = hashlib.sha256(b"key").hexdigest()[:32]
    redis.rename(once.name, f"gradebox:answer:default:0123:{digest}")
    redis.lset(redis_keys.answers("default"), 0, f"gradebox:answer:default:0123:{digest}")
    redis.set(redis_keys.FORMAT, 3)


def test_frozen_batches_and_answers_of_format_3_are_as_they_were(redis: Redis, store: Store) -> None:
    asked = once("default", "0123", "key", b"fingerprint", 3600)
    exact = [wanted(store, "exact")]
    first = store.acceptance.accept(
        UploadedBatch(store.orphan_files.begin(), "default", exact, [Chunk(0, 3, 0, 1)]), lambda pipe: None, asked
    )
    finish(store, claim(store))
    others = []
    for _ in range(3):
        others.append(accept(store, 20, *exact))
        finish(store, claim(store))
    kept, _, unfrozen = others
    store.batches.keep("default", kept, True)
    for batch in (first.id, *others):
        if batch != unfrozen:
            store.freezer.freeze(batch)
    before, over = store.batches.newest("default", 9), list(ended(redis))
    to_format_3(redis, asked)

    check_format(redis)

    assert redis.keys("gradebox:frozen:*") == redis.keys("gradebox:answer:default*") == []
    assert store.batches.newest("default", 9) == before
    assert list(ended(redis)) == over
    assert store.acceptance.answered(asked) == first
    assert redis.ttl(asked.name) > 3000
    assert redis.lrange(redis_keys.answers("default"), 0, -1) == [asked.digest.encode()]
    assert store.batches.expire(time.time() + 1, 100) == 3
    assert [batch.id for batch in store.batches.newest("default", 9)] == [kept]
    assert redis.xlen(redis_keys.ENDED) == 0


def test_statistics_of_format_3_are_as_they_were(redis: Redis, store: Store) -> None:
    batch = accept(store, 40, wanted(store, "a"), wanted(store, "b"))
    for _ in range(2):
        lease = claim(store)
        made = outcomes_of(store, lease)
        label = made[0].grader
        scores = [Outcome(one.index, label, 0.1 * one.index - 1e-7, 0.5) for one in made[:30]]
        finish(store, lease, [*scores, *[failed(one.index, label) for one in made[30:]]])
    before = store.batches.get("default", batch)
    for number in range(2):  # in format 3
        counted = store.batches._tallies.of(batch, 2)[number]
        named = ("count", "scored", "mean", "m2", "minimum", "maximum", "run_ms")
        fields: dict[Any, Any] = {name: repr(getattr(counted, name)) for name in named}
        redis.hset(f"gradebox:batch:{batch}:stats:{number}", mapping={**fields, "error:exception": "10"})
        redis.hset(f"gradebox:batch:{batch}:stats:{number}", "past", "1:50:99.0:1.5 1:50:99.0:1.5 1:50:99.0:1.5")
        values: dict[Any, Any] = {repr(value): count for value, count in counted.values.items()}
        redis.hset(f"gradebox:batch:{batch}:values:{number}", mapping=values)
        redis.delete(redis_keys.tallies(batch, number))
    redis.delete(redis_keys.ENDED)
    redis.set(redis_keys.FORMAT, 3)

    check_format(redis)

    found = store.batches.get("default", batch)
    assert [one.warning_kinds for one in found.summary] == [["jump"], ["jump"]]  # compared with format 3's past
    assert [(one.passed, one.pass_rate) for one in found.summary] == [(None, None)] * 2  # format 3 did not count them
    assert [(one.passed, one.pass_rate) for one in before.summary] == [(19, 19 / 30)] * 2  # 0.9999999 does not pass
    plain = {"warnings", "warning_kinds", "passed", "pass_rate", "retryable"}
    assert [one.model_dump(exclude=plain) for one in found.summary] == [
        one.model_dump(exclude=plain) for one in before.summary
    ]
    store.freezer.freeze(batch)
    assert store.batches.get("default", batch) == found.model_copy(update={"kept": True})  # it was not in `ended`
    assert not redis.exists(redis_keys.rewards("default", "a"))  # format 3 recorded the rewards when the batch ended
    assert not redis.keys(f"gradebox:batch:{batch}*")


def test_builds_of_format_4_have_their_new_names(redis: Redis, store: Store) -> None:
    load_keys(redis, "format_4.json")  # a reason has the old names in quotes

    check_format(redis)

    first, second = store.environments.get("default", "math").builds
    assert (first.packages, first.size_bytes) == (["sympy==1.14"], 123456789)
    assert [(one.name, len(one.sha256)) for one in first.lock] == [("mpmath", 1), ("sympy", 2)]
    assert (second.packages, second.lock) == (["sympy==9"], [])
    assert second.reason == 'uv: {"packages":[],"requirements":["sympy==9\\"]}'
    assert store.environments.newest("other", "math").packages == ["numpy>=2", "sympy[extra]"]
    for name in redis.keys(redis_keys.builds("*", "*")):
        for build in redis.hvals(text(name)):
            assert EnvironmentBuild.model_validate_json(build).model_dump_json(exclude_unset=True).encode() == build
    waiting = store.builds.claim()
    assert waiting is not None and (waiting.key, waiting.packages, len(waiting.data)) == ("words", [], 64)
    assert store.builds.finish(waiting, Made(first.lock, first.sha256, first.python, 1, 1))


def test_a_batch_of_an_older_gradebox_with_a_lease_starts(format_1: dict[str, str], redis: Redis, store: Store) -> None:
    redis.zadd(redis_keys.LEASES, {format_1["lease"]: 1e15}, xx=True)
    check_format(redis)
    assert [claim(store).batch for _ in range(3)] == [format_1["running"], format_1["queued"], format_1["queued"]]
    assert store.leases.claim() is None


def test_a_snapshot_is_as_of_a_transaction(redis: Redis) -> None:
    redis.hset("hash", mapping={"a": 1, "b": 2})
    redis.rpush("list", "x", b"\xff")
    redis.sadd("set", 1)

    def ask(pipe: Pipeline) -> None:
        pipe.hgetall("hash")
        pipe.hgetall("none")
        pipe.hmget("hash", "a", "none")
        pipe.hget("none", "a")
        pipe.hkeys("hash")
        pipe.lrange("list", 0, -1)
        pipe.sismember("set", "1")
        pipe.exists("hash", "none")

    with redis.pipeline() as pipe:
        ask(pipe)
        assert read_snapshot(redis, ask) == pipe.execute()


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (ResponseError("MISCONF Errors writing to the AOF file"), "Redis cannot write to its disk"),
        (RedisConnectionError("refused"), "Redis does not answer"),
    ],
)
def test_the_log_says_what_is_so_with_redis(error: RedisError, trouble: str) -> None:
    assert is_away(error)
    assert trouble_of(error).startswith(trouble)


@contextmanager
def read_only(redis: Redis) -> Iterator[None]:
    redis.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        redis.replicaof("no", "one")


@contextmanager
def without_replicas(redis: Redis) -> Iterator[None]:
    redis.config_set("min-replicas-to-write", 1)
    try:
        yield
    finally:
        redis.config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize(
    ("made", "trouble"),
    [
        (full, "Redis has reached its maxmemory"),
        (read_only, "Redis is read-only"),
        (without_replicas, "Redis has fewer replicas than"),
    ],
)
def test_a_redis_that_cannot_be_written_is_told_also_of_pipelines_and_ends_no_start(
    redis: Redis,
    storage_settings: StorageSettings,
    made: Callable[[Redis], AbstractContextManager[None]],
    trouble: str,
) -> None:
    first_start(open_store(storage_settings), storage_settings)
    assert write_trouble(redis) is None
    with made(redis):
        first_start(open_store(storage_settings), storage_settings)
        assert trouble in str(write_trouble(redis))
        with pytest.raises(RedisError) as raised, redis.pipeline(transaction=False) as pipe:
            pipe.set("more", 1)
            pipe.execute()
    assert is_away(raised.value)
    assert trouble_of(raised.value).startswith(trouble)
    assert write_trouble(redis) is None


@contextmanager
def without_primary(redis: Redis) -> Iterator[None]:
    redis.config_set("replica-serve-stale-data", "no")
    try:
        with read_only(redis):
            yield
    finally:
        redis.config_set("replica-serve-stale-data", "yes")


@contextmanager
def busy(redis: Redis) -> Iterator[None]:
    redis.config_set("busy-reply-threshold", 1)
    script: Any = redis.connection_pool.make_connection()
    script.send_command("EVAL", "while true do end", 0)
    try:
        eventually(lambda: refuses(redis))
        yield
    finally:
        redis.script_kill()
        eventually(lambda: not refuses(redis))
        script.disconnect()
        redis.config_set("busy-reply-threshold", 5000)


def refuses(redis: Redis) -> bool:
    try:
        redis.exists("none")
    except ResponseError:
        return True
    return False


@pytest.mark.parametrize("made", [without_primary, busy])
def test_a_redis_that_refuses_reads_for_a_while_is_away(
    redis: Redis, made: Callable[[Redis], AbstractContextManager[None]]
) -> None:
    with made(redis), pytest.raises(RedisError) as raised:
        redis.exists("none")
    assert is_away(raised.value)


def test_money_of_format_4_is_in_us_dollars(redis: Redis, store: Store) -> None:
    for key in ("dollars", "euros", "free"):
        defaults = ModelDefaults(temperature=0.5)
        store.models.create("default", key, "https://a/v1?x=%22cost%22", 'says "price":{}', "", defaults, 30)
    exact = wanted(store, "exact")
    asked = accept(store, 10, exact, terms=AskTerms(Budget(2.5, 100), "new"))
    plain = accept(store, 10, exact)
    before = {key: store.models.access("default", key).server for key in ("dollars", "euros", "free")}

    def priced(key: str, price: str) -> None:
        record = text(redis.hget(redis_keys.models("default"), key) or "")
        old = record.replace('"input_price":null,"output_price":null', f'"price":{price}')
        assert old != record
        redis.hset(redis_keys.models("default"), key, old)

    priced("dollars", '{"input":0.15,"output":1000000.0,"currency":"USD"}')
    priced("euros", '{"input":1.0,"output":2.0,"currency":"EUR"}')
    priced("free", "null")
    limits = {
        "default": '"cost":2.5,"tokens":100,"currency":"USD","period":"day"',
        "euros": '"cost":9.5,"tokens":null,"currency":"EUR","period":"day"',
        "tokens": '"cost":null,"tokens":7,"currency":"EUR","period":"total"',
    }
    for project, limit in limits.items():
        redis.hset(redis_keys.PROJECTS, project, "")
        redis.hset(redis_keys.BUDGETS, project, f"{{{limit}}}")
    terms = '{"budget":{"cost":2.5,"tokens":100,"currency":"USD","period":"total"},"keep_replies":false}'
    redis.hset(redis_keys.batch(asked), "terms", terms)
    redis.set(redis_keys.FORMAT, 4)

    check_format(redis)

    after = {key: store.models.access("default", key).server for key in before}
    assert after["dollars"] == msgspec.structs.replace(before["dollars"], input_price=0.15, output_price=1e6)
    assert (after["euros"], after["free"]) == (before["euros"], before["free"])
    budgets = [store.spending.budget(project) for project in ("default", "euros", "tokens")]
    assert budgets == [Budget(2.5, 100, "day"), Budget(0.0, None, "day"), Budget(None, 7)]
    found = [store.batches.get("default", batch) for batch in (asked, plain)]
    assert [(one.budget, one.replies) for one in found] == [(BatchBudget(usd=2.5, tokens=100), "new"), (None, "kept")]
