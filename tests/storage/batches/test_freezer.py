import random
import threading

import msgspec
import pytest
from redis import Redis

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Batch, BatchBudget, Spending
from storage import redis_keys
from storage.batch_plan import Wanted
from storage.batches import frozen_batch
from storage.errors import NotFound
from storage.store import Store
from tests.storage.making import accept, claim, failed, finish, finish_all, lines_of, passed_over, spend, wanted


def finished(store: Store, lines: int, *graders: Wanted) -> str:
    """A finished batch with scores that all differ and some errors."""
    batch = accept(store, lines, *graders)
    chance = random.Random(lines)

    def outcome(one: Outcome) -> Outcome:
        is_error = one.index % 10 == 3
        return failed(one.index, one.grader) if is_error else msgspec.structs.replace(one, score=chance.gauss(0, 1))

    finish_all(store, outcome)
    return batch


def views(store: Store, batch: str) -> tuple[Batch, Batch, list[Batch], list[bytes], list[bytes]]:
    """All views of a batch."""
    return (
        store.batches.get("default", batch),
        store.batches.get("default", batch, summary=False),
        store.batches.newest("default", 10),
        lines_of(store, batch),
        lines_of(store, batch, after=700),
    )


@pytest.mark.parametrize(("lines", "table_bytes"), [(1, 1024), (900, 1024), (6000, 0)])
def test_all_that_can_be_asked_is_answered_as_before(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, lines: int, table_bytes: int
) -> None:
    monkeypatch.setattr(frozen_batch, "KEPT_TABLE_BYTES", table_bytes)  # the table of a large batch is a file
    batch = finished(store, lines, wanted(store, "a", 0.5), wanted(store, "b", -2.0))
    before = views(store, batch)
    store.freezer.freeze(batch)
    assert len(store.spool.tables(batch)) == (table_bytes == 0)
    assert views(store, batch) == before
    assert redis.keys(f"gradebox:batch:{batch}*") == []
    assert not redis.exists(redis_keys.UNFROZEN)
    store.freezer.freeze(batch)  # a second time, as after a lost answer
    assert views(store, batch) == before


def test_all_that_a_summary_has_stays(store: Store) -> None:
    batch = accept(store, 10, wanted(store, "a"), wanted(store, "b"))
    again = OutcomeError("model", "the server is away", retryable=True, cause="unreachable")

    def outcome(one: Outcome) -> Outcome:
        if one.grader == "b@1":
            return failed(9, "b@1") if one.index == 9 else one
        if one.index == 9:
            return msgspec.structs.replace(one, score=None, error=again)
        if one.index < 4:
            return passed_over(one.index, "a@1")
        return msgspec.structs.replace(one, values={"format": one.index / 10}, no_completion=one.index < 7)

    finish_all(store, outcome)
    for _ in range(5):
        spend(store, batch)
    before = store.batches.get("default", batch)
    assert (before.done, before.scored, before.errors) == (20, 14, {"model": 1, "exception": 1})
    first, second = before.summary
    assert (first.not_applicable, second.not_applicable, before.not_applicable) == (4, 0, 4)
    assert (first.retryable, second.retryable, before.retryable) == (1, 0, 1)
    spent = Spending(asks=10, kept=5, input_tokens=150, output_tokens=15, usd=2.5)
    assert first.spent == spent
    assert second.spent is None
    assert (first.values["format"].count, first.values["format"].maximum) == (5, 0.8)
    assert "no_completion" in first.warning_kinds
    store.freezer.freeze(batch)
    assert store.batches.get("default", batch) == before
    assert store.batches.newest("default", 10)[0].not_applicable == 4


def test_a_record_of_an_earlier_release_is_read() -> None:
    # Frozen before graders could ask: 10 outcomes of one grader, of which 9 have a score.
    packed = (
        "433889ebc0b5ff99a13b1990c989771804172632c2cde7e2440a41a0f0cd996070dafe425bc8a22bdf6e2179e4"
        "255866d65424a1931021983620e3b13118c055cf620402061081b073c28406860300"
    )
    kept = b"default:100:1-0\n" + bytes.fromhex(packed)
    found = frozen_batch.Frozen(kept).batch("b", summary=True)
    assert (found.scored, found.errors, found.not_applicable) == (9, {"exception": 1}, 0)
    assert (found.summary[0].count, found.summary[0].spent) == (10, None)
    assert (found.summary[0].retryable, found.retryable) == (None, None)
    # Its budget was 0.5 euros, which is no limit in dollars: a retry may spend nothing.
    packed = (
        "9b0b7712cb1a33a314434b4393c4642333a3ebff97eddfd790cdb5e3f7f5ff2bce652d80b076ca672b6473ed"
        "cc9b7887416279ba6e5a4e62762523dc7616e6c6a5e0ccc148039f319fb67f5c76628b6584e084090d0cad4b"
        "128bb38b59d664e6159496c497e467a7e615cbad05c63082cbbf2439bfb8e4b4fdba1d81af5be576ac482e2d"
        "2a4acd4bae5cec1a1ac4dc00f23dce70da83c6670186d46478ea380032e1f0810500"
    )
    found = frozen_batch.Frozen(b"default:1081:1-0\n" + bytes.fromhex(packed)).batch("b", summary=True)
    assert (found.budget, found.errors) == (BatchBudget(usd=0.0), {"model": 1})


def test_a_large_batch_of_sixteen_graders_keeps_little_in_redis(store: Store, redis: Redis) -> None:
    names_of = [f"a-name-that-is-long-{number:02}" + "x" * 40 for number in range(16)]
    batch = finished(store, 8_000, *[wanted(store, name) for name in names_of])
    assert sum(redis.memory_usage(key) or 0 for key in redis.keys(f"gradebox:batch:{batch}*")) > 200_000
    store.freezer.freeze(batch)
    assert len(redis.hget(redis_keys.FROZEN, batch) or b"") < 8192


def test_many_small_batches_take_less_than_400_bytes_each(store: Store, redis: Redis) -> None:
    exact = wanted(store, "exact")

    def make(count: int) -> None:
        for _ in range(count):
            batch = accept(store, 1, exact)
            finish(store, claim(store))
            store.freezer.freeze(batch)

    make(150)  # Redis encodes small structures differently
    before = _memory(redis)
    make(50)
    assert (_memory(redis) - before) / 50 < 400


def _memory(redis: Redis) -> int:
    """The memory of all keys. The total that Redis reports also counts the buffers of its clients, which change."""
    return sum(redis.memory_usage(key, samples=0) or 0 for key in redis.keys("*"))


@pytest.mark.parametrize("name", ["find", "tables"])
def test_a_chunk_that_counts_while_its_cancelled_batch_is_frozen_is_not_lost(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    batch = accept(store, 2500)
    lease = claim(store)
    store.batches.cancel("default", batch)
    read = getattr(store.batches, name)

    def reading(batch_id: str) -> object:
        found = read(batch_id)
        finish(store, lease)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(store.batches, name, reading)
        store.freezer.freeze(batch)
    store.freezer.freeze(batch)
    assert redis.hexists(redis_keys.FROZEN, batch)
    found = store.batches.get("default", batch)
    assert (found.done, found.summary[0].count) == (1000, 1000)


def test_a_frozen_batch_can_be_kept_and_let_go_and_deleted(store: Store, redis: Redis) -> None:
    batch = finished(store, 900)
    stored = int(redis.hget(redis_keys.STORED, "default") or 0)
    assert stored > 900
    store.freezer.freeze(batch)
    assert store.batches.cancel("default", batch).state == "finished"
    assert store.batches.keep("default", batch, True).kept
    assert store.batches.newest("default", 1)[0].kept
    assert not redis.xlen(redis_keys.ENDED)
    assert not store.batches.keep("default", batch, False).kept
    store.batches.delete("default", batch)
    with pytest.raises(NotFound):
        store.batches.get("default", batch)
    store.orphan_files.swept(batch)
    assert redis.keys(f"*{batch}*") == []
    assert not redis.exists(redis_keys.STORED)
    with pytest.raises(NotFound):
        lines_of(store, batch)
    store.freezer.freeze(batch)  # by a late process
    assert redis.keys(f"*{batch}*") == []


def test_what_reads_while_a_batch_is_frozen_sees_it_whole(store: Store) -> None:
    graders = [wanted(store, key) for key in ("a", "b", "c")]
    for _ in range(10):
        batch = finished(store, 300, *graders)
        before = store.batches.get("default", batch), lines_of(store, batch)
        freezing = threading.Thread(target=store.freezer.freeze, args=(batch,))
        freezing.start()
        while freezing.is_alive():
            assert (store.batches.get("default", batch), lines_of(store, batch)) == before
        freezing.join()


def test_a_batch_whose_summary_cannot_be_made_stays_and_says_so(store: Store, redis: Redis) -> None:
    batch = finished(store, 20)
    redis.rpush(redis_keys.tallies(batch, 0), b"no tally")
    store.freezer.freeze(batch)
    found = store.batches.get("default", batch)
    assert (found.state, found.summary, found.weighted_mean) == ("finished", [], None)
    assert found.summary_error is not None
    assert redis.exists(redis_keys.batch(batch))
    assert len(lines_of(store, batch)) == 20
    redis.rpop(redis_keys.tallies(batch, 0))  # repairs the batch
    store.freezer.freeze(batch)
    assert store.batches.get("default", batch).summary_error is None
    assert redis.hexists(redis_keys.FROZEN, batch)


def test_a_freeze_that_is_killed_behind_its_file_is_done_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = finished(store, 50_000)
    before = views(store, batch)
    assert len(frozen_batch.join(*(store.batches.tables(batch) or (b"", b"")))) > frozen_batch.KEPT_TABLE_BYTES
    with monkeypatch.context() as patched:
        patched.setattr(store.freezer, "_freeze", lambda args: (_ for _ in ()).throw(KeyboardInterrupt("killed")))
        with pytest.raises(KeyboardInterrupt):
            store.freezer.freeze(batch)
    assert views(store, batch) == before
    store.freezer.freeze(batch)
    assert views(store, batch) == before
    decoded = msgspec.json.Decoder(Outcome).decode_lines(b"".join(lines_of(store, batch)))
    assert [one.index for one in decoded] == list(range(50_000))
