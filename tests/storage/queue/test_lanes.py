"""Tests that batches of graders that ask have separate workers."""

import pytest
from redis import Redis

from gradebox.schemas import ModelDefaults
from storage import redis_keys
from storage.batch_plan import Wanted
from storage.models.model_limits import AskLimits, Demand, arguments
from storage.processes import ProcessRecord
from storage.queue.leases import UnitStanding
from storage.spool.chunks import ASKING_CHUNK_LINES, ASKING_GROUP_CHUNK_LINES, GROUP_CHUNK_LINES
from storage.store import Store
from storage.uploads import Upload
from tests.storage.making import accept, claim, full, line, wanted

ASKS = ("model:small-judge",)


def test_each_lane_is_lent_its_own_units_alone(store: Store) -> None:
    def waiting() -> tuple[int, int]:
        return store.leases.beat([]).waiting, store.leases.beat([], "asking").waiting

    one = wanted(store, "plain")
    asking = accept(store, 10, one, wanted(store, "asking", asks=ASKS))  # one grader that asks is enough
    assert waiting() == (0, 1)
    plain = accept(store, 1500, one)
    assert waiting() == (1, 1)
    assert [claim(store).batch for _ in range(2)] == [plain, plain]
    assert store.leases.claim() is None
    first, second = claim(store, "asking"), claim(store, "asking")
    assert first.batch == second.batch == asking
    assert store.leases.claim(lane="asking") is None
    store.leases.release(first)
    assert store.leases.claim() is None
    assert claim(store, "asking").unit == first.unit


def test_projects_share_a_lane_whatever_they_have_in_the_other(store: Store) -> None:
    """A project that waits only in one lane is not unserved in the other."""
    plain, asking = wanted(store, "plain"), wanted(store, "asking", asks=ASKS)
    accept(store, 3000, plain, project="both")
    accept(store, 3000, asking, project="both")
    mine = claim(store, "asking")
    assert store.leases.advance(mine, 1) == UnitStanding.ALONE
    accept(store, 10, plain, project="other")
    assert store.leases.advance(mine, 1) == UnitStanding.ALONE
    accept(store, 10, asking, project="other")
    assert store.leases.advance(mine, 1) == UnitStanding.UNSERVED_PROJECT
    unserved = store.leases.claim("projects")
    assert unserved is not None and store.batches.get("both", unserved.batch).project == "both"


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_nothing_is_left_of_a_batch_that_ends(store: Store, redis: Redis, end: str) -> None:
    batch = accept(store, 300, wanted(store, "asking", asks=ASKS))
    assert redis.exists("gradebox:turns-asking", "gradebox:turns-asking:default") == 2
    getattr(store.batches, end)("default", batch)
    assert redis.keys("gradebox:turns*") == []
    assert not redis.exists(redis_keys.WAITING, redis_keys.ACTIVE, redis_keys.SOURCES)


def test_chunks_are_large_for_fast_graders_and_small_for_those_that_ask_or_take_groups(store: Store) -> None:
    one = wanted(store, "exact")
    for asks, groups, line_ms, most in (
        (ASKS, False, 0.1, ASKING_CHUNK_LINES),
        ([], True, 0.1, GROUP_CHUNK_LINES),
        (ASKS, True, 0.1, ASKING_GROUP_CHUNK_LINES),
        ([], False, None, 1000),
        ([], False, 1.1, 1000),
        ([], False, 0.1, 2000),
    ):
        version = one.version.model_copy(update={"asks": asks, "groups": groups, "test_run_ms": line_ms})
        upload = Upload(store, "default", [Wanted(one.key, version)])
        upload.write(b"".join(map(line, range(12_000))))
        chunks = upload.finish()
        assert max(chunk.lines for chunk in chunks) == most
        assert sum(chunk.lines for chunk in chunks) == 12_000
        store.orphan_files.condemn(upload.id)


def test_a_batch_says_that_no_worker_of_its_lane_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = accept(store, 10, wanted(store, "asking", asks=ASKS))
    store.processes.report(ProcessRecord("worker", "here:1"))
    assert store.batches.get("default", batch).trouble is None  # a worker may be starting
    monkeypatch.setattr("storage.batches.batch_record._START_S", 0.0)
    trouble = store.batches.get("default", batch).trouble
    assert trouble is not None and "gradebox worker --queue asking" in trouble
    with full(store.redis):  # workers cannot report
        assert "maxmemory" in str(store.batches.get("default", batch).trouble)
    store.processes.report(ProcessRecord("asking-worker", "here:2", trouble="waits for the spool: No space left"))
    assert "can work now" in str(store.batches.get("default", batch).trouble)
    store.processes.report(ProcessRecord("asking-worker", "here:3"))
    assert store.batches.get("default", batch).trouble is None


def test_a_batch_says_which_servers_it_waits_for(store: Store) -> None:
    batch = accept(store, 10, wanted(store, "asking", asks=ASKS))
    store.models.create("default", "small-judge", "http://a/v1", "m", "", ModelDefaults(), 5)
    account = store.models.access("default", "small-judge").server.account
    demand = Demand(1, 0, 1, away_ms=40_000)
    told = arguments("default", "model:small-judge", account, "here:2", AskLimits(4), demand)
    store.model_limits.share(args=told)
    (server,) = store.batches.get("default", batch).waits_for
    assert (server.asked, server.kind, server.seconds) == ("model:small-judge", "unreachable", 40)
    store.batches.cancel("default", batch)
    assert store.batches.get("default", batch).waits_for == []
