import io
import threading
import time
from pathlib import Path

import pytest
from redis import Redis

from storage import janitor as janitors
from storage import redis_keys
from storage.batch_plan import UploadedBatch
from storage.errors import NotFound, PayloadLost
from storage.janitor import Janitor
from storage.settings import StorageSettings
from storage.store import Store
from storage.uploads import DataUpload, Upload
from tests.storage.making import accept, claim, finish, full, over_since, wanted

DAY_S = 24 * 3600.0


@pytest.fixture
def folder(storage_settings: StorageSettings) -> Path:
    """The folder of the spool."""
    return storage_settings.data_dir / "spool"


def over(store: Store, days_ago: float) -> str:
    """A batch that ended this many days ago."""
    batch = accept(store, 10)
    finish(store, claim(store))
    store.graders.delete("default", "exact")
    over_since(store, batch, days_ago * DAY_S)
    return batch


def files(folder: Path) -> set[str]:
    """The ids of all batches that have files."""
    payloads, outcomes = (folder / name for name in ("payloads", "outcomes"))
    return {path.stem for path in payloads.iterdir()} | {path.name for path in outcomes.iterdir()}


def test_what_has_had_its_time_is_gone_from_redis_and_spool(store: Store, redis: Redis, folder: Path) -> None:
    old, young, kept = over(store, 31), over(store, 29), over(store, 31)
    store.batches.keep("default", kept, True)
    running = accept(store, 10)

    assert Janitor(store, None).look()
    assert len(store.batches.newest("default", 9)) == 4
    assert Janitor(store, 30 * DAY_S).look()

    with pytest.raises(NotFound):
        store.batches.get("default", old)
    assert {batch.id for batch in store.batches.newest("default", 9)} == {young, kept, running}
    redis.zadd(redis_keys.GARBAGE, {old: 1})  # a minute has passed
    Janitor(store, 30 * DAY_S).look()
    assert not redis.keys(f"*{old}*")
    assert files(folder) == {young, kept, running}


@pytest.mark.parametrize("days", [99_999.0, float("inf")])
def test_a_retention_of_centuries_keeps_batches_alone(store: Store, redis: Redis, folder: Path, days: float) -> None:
    old, deleted = over(store, 31), over(store, 31)
    store.batches.delete("default", deleted)
    redis.zadd(redis_keys.GARBAGE, {deleted: 1})  # a minute has passed
    Janitor(store, days * DAY_S).look()
    assert store.batches.get("default", old).state == "finished"
    assert files(folder) == {old}


def test_what_is_no_longer_kept_has_all_of_its_time_again(store: Store) -> None:
    batch = over(store, 31)
    assert store.batches.keep("default", batch, True).kept
    assert not store.batches.keep("default", batch, False).kept
    Janitor(store, 30 * DAY_S).look()
    assert store.batches.get("default", batch).done == 10


def test_a_batch_that_was_kept_while_it_ran_stays(store: Store) -> None:
    batch = accept(store, 10)
    store.batches.keep("default", batch, True)
    finish(store, claim(store))
    assert store.batches.get("default", batch).state == "finished"
    Janitor(store, 0.0).look()
    assert store.batches.get("default", batch).kept


@pytest.mark.parametrize("ahead_s", [-40 * DAY_S, 40 * DAY_S])
def test_the_clock_of_the_janitors_machine_does_not_count(
    store: Store, folder: Path, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    young, old = over(store, 29), over(store, 31)
    cancelled = accept(store, 10)
    under_way = claim(store)
    store.batches.cancel("default", cancelled)
    upload = Upload(store)
    data = DataUpload(store, "default")
    data.write(b"zip")
    data.close()
    store.environment_data.keep("default", data.sha256, data.id, data.size)
    store.archives.keep("a" * 64, io.BytesIO(b"content"))
    at = time.time() + ahead_s
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: at)
        Janitor(store, 30 * DAY_S).look()
    assert {batch.id for batch in store.batches.newest("default", 9)} == {young, cancelled}
    assert store.orphan_files.renew(upload.id)
    assert store.environment_data.ids() == {data.id}
    assert store.spool.has_archive("a" * 64)
    assert finish(store, under_way)  # it counts until the batch is frozen
    store.redis.zadd(redis_keys.GARBAGE, {old: time.time() - 1}, xx=True)
    Janitor(store, None).look()
    assert old not in files(folder)


def test_a_janitor_that_is_killed_is_followed_by_the_next(
    store: Store, redis: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over(store, 31)
    with monkeypatch.context() as patched:
        patched.setattr("storage.batches.batches._SWEEP_AGAIN_S", 0)
        patched.setattr(store.spool, "remove", lambda batch: (_ for _ in ()).throw(KeyboardInterrupt("killed")))
        with pytest.raises(KeyboardInterrupt):
            Janitor(store, DAY_S).look()
    assert len(files(folder)) == 1
    redis.set(redis_keys.JANITOR, "of a process that is gone", px=50)
    assert not Janitor(store, DAY_S).look()
    time.sleep(0.1)
    assert Janitor(store, DAY_S).look()
    assert files(folder) == set()


def test_outcomes_that_lost_a_race_are_removed_when_the_batch_is_over(store: Store, redis: Redis, folder: Path) -> None:
    batch = accept(store, 2000)
    slow, other = claim(store), claim(store)
    store.spool.write_outcomes(batch, {(slow.unit, 7): b"late"})
    finish(store, slow)
    Janitor(store, None).look()
    assert len(store.spool.outcome_files(batch)) == 2
    finish(store, other)
    redis.zadd(redis_keys.UNTIDY, {batch: time.time() - 3601})
    Janitor(store, None).look()
    assert sorted(store.spool.outcome_files(batch)) == [(0, 1), (1, 1)]
    assert not redis.exists(redis_keys.UNTIDY)


def test_a_folder_that_cannot_be_removed_stands_in_the_way_of_no_other(
    store: Store, redis: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other = over(store, 1), over(store, 1)
    for batch in (stuck, other):
        store.batches.delete("default", batch)
        redis.zadd(redis_keys.GARBAGE, {batch: 1 if batch == stuck else 2})
    remove = store.spool.remove

    def fails(batch: str) -> None:
        if batch == stuck:
            raise PermissionError(f"{batch} belongs to somebody else")
        remove(batch)

    with monkeypatch.context() as patched:
        patched.setattr(store.spool, "remove", fails)
        Janitor(store, None).look()
    assert files(folder) == {stuck}
    redis.zadd(redis_keys.GARBAGE, {stuck: 1})
    Janitor(store, None).look()
    assert files(folder) == set()


def test_batches_with_a_lost_table_or_a_damaged_record_stand_in_the_way_of_no_other(
    store: Store, redis: Redis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.spool.lost_files.SETTLED_S", 0.0)
    lost = accept(store, 40_000, wanted(store, "lost"))
    store.batches.cancel("default", lost)
    store.freezer.freeze(lost)
    (name,) = store.spool.tables(lost)
    (folder / "outcomes" / lost / name).unlink()
    damaged = over(store, 1)
    redis.hset(redis_keys.FROZEN, damaged, b"its record")
    redis.zadd(redis_keys.UNTIDY, {damaged: 1, lost: time.time() - 3601})
    other = over(store, 1)
    redis.zadd(redis_keys.UNFROZEN, {other: 1})
    Janitor(store, None).look()
    assert redis.hexists(redis_keys.FROZEN, other)
    assert redis.zrangebyscore(redis_keys.UNTIDY, time.time() - 60, "inf") == [damaged.encode()]


def test_what_was_not_frozen_is_frozen(store: Store, redis: Redis) -> None:
    batch = over(store, 1)
    cancelled = accept(store, 10)
    store.batches.cancel("default", cancelled)
    before = [store.batches.get("default", one) for one in (batch, cancelled)]
    Janitor(store, None).look()
    assert (
        redis.exists(redis_keys.batch(batch), redis_keys.batch(cancelled)) == 2
    )  # the process that ended them may freeze them
    for one in (batch, cancelled):
        redis.zadd(redis_keys.UNFROZEN, {one: time.time() - 6})
    Janitor(store, None).look()
    assert not redis.exists(redis_keys.batch(batch), redis_keys.batch(cancelled), redis_keys.UNFROZEN)
    assert [store.batches.get("default", one) for one in (batch, cancelled)] == before


def test_old_files_of_no_batch_are_orphans(store: Store, folder: Path) -> None:
    known = over(store, 1)
    old, young = f"{int(time.time() - 2 * DAY_S):08x}{'0' * 12}", f"{int(time.time()):08x}{'0' * 12}"
    for batch in (old, young):
        store.spool.write_outcomes(batch, {(0, 1): b"{}"})
    (folder / "outcomes" / "notes.txt").write_text("an operator's")
    Janitor(store, None).look()
    assert files(folder) == {known, young, "notes.txt"}


def test_files_of_a_frozen_batch_are_no_orphans(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = over(store, 1)
    store.freezer.freeze(batch)
    monkeypatch.setattr(janitors, "OLD_S", -DAY_S)  # everything is old enough
    Janitor(store, None).look()
    assert store.orphan_files.due() == []
    assert files(folder) == {batch}


def test_files_of_another_deployment_are_left_alone(store: Store, redis: Redis, folder: Path) -> None:
    old = f"{int(time.time() - 2 * DAY_S):08x}{'0' * 12}"
    Janitor(store, None).look()
    redis.flushdb()  # as in the wrong Redis, or in one that lost its data
    store.spool.write_outcomes(old, {(0, 1): b"{}"})
    (folder / "payloads").mkdir()
    Janitor(store, None).look()
    assert files(folder) == {old}


def test_uploads_under_way_are_left_alone(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitors, "OLD_S", -DAY_S)  # everything is old enough
    exact, looked, ended = wanted(store, "exact"), 0, threading.Event()

    def look() -> None:
        nonlocal looked
        while not ended.is_set():
            redis.delete(redis_keys.ORPHANS)
            looked += Janitor(store, 30 * DAY_S).look()

    thread = threading.Thread(target=look)
    thread.start()
    accepted = []
    for _ in range(60):
        upload = Upload(store)
        for number in range(5):
            upload.write(b'{"completion": "%d"}\n' % number)
        store.acceptance.accept(UploadedBatch(upload.id, "default", [exact], upload.finish()), lambda pipe: None)
        accepted.append(upload.id)
    ended.set()
    thread.join()
    assert looked > 10
    for batch in accepted:
        assert store.spool.read_payload(batch, 0, 1) == b"{"


def test_an_upload_is_either_condemned_or_renewed(store: Store, redis: Redis) -> None:
    upload = Upload(store)
    upload.write(b"{}\n")
    redis.zadd(redis_keys.UPLOADS, {upload.id: time.time() - 1})
    assert store.orphan_files.renew(upload.id)
    store.orphan_files.condemn_overdue()
    assert store.orphan_files.due() == []
    redis.zadd(redis_keys.UPLOADS, {upload.id: time.time() - 1})
    store.orphan_files.condemn_overdue()
    assert not store.orphan_files.renew(upload.id)
    Janitor(store, None).look()
    with pytest.raises(PayloadLost):
        store.spool.read_payload(upload.id, 0, 1)


def test_a_round_whose_lock_expires_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing of a large spool may take longer than the lock lasts."""
    orphans = {f"{number:020x}" for number in range(250)}
    condemned: list[str] = []

    def listed() -> set[str]:
        time.sleep(0.3)
        return orphans

    def condemn(ids: list[str]) -> list[str]:
        condemned.extend(ids)
        return []

    monkeypatch.setattr(janitors, "LOCK_S", 0.1)
    monkeypatch.setattr(store.spool, "batches", listed)
    monkeypatch.setattr(store.orphan_files, "condemn_orphans", condemn)
    assert Janitor(store, None).look()
    assert condemned == sorted(orphans)


def test_a_round_frees_a_full_redis_and_the_spool(store: Store, redis: Redis, folder: Path) -> None:
    old, deleted, cancelled = over(store, 31), over(store, 0), accept(store, 10)
    store.batches.cancel("default", cancelled)
    redis.zadd(redis_keys.UNFROZEN, {cancelled: 1})
    store.batches.delete("default", deleted)
    redis.zadd(redis_keys.GARBAGE, {deleted: 1})
    dead = Upload(store)
    redis.zadd(redis_keys.UPLOADS, {dead.id: 1})
    stuck = "0" * 20
    for name in (f"payloads/{stuck}.jsonl", f"outcomes/{cancelled}/0-1.jsonl"):
        (folder / name).mkdir(parents=True)  # it is no file, so it cannot be removed as one
    redis.zadd(redis_keys.GARBAGE, {stuck: 0})
    redis.zadd(redis_keys.UNTIDY, {cancelled: 0})
    with full(redis):
        assert Janitor(store, 30 * DAY_S).look()
        assert Janitor(store, 30 * DAY_S).look()  # the lock was released
    assert [batch.id for batch in store.batches.newest("default", 9)] == [cancelled]
    assert store.batches.frozen(cancelled) is not None
    assert files(folder) == {old, cancelled, stuck}
    assert redis.zcount(redis_keys.GARBAGE, time.time(), "inf") == 2  # it is tried again, and the expired batch swept
    assert redis.zcount(redis_keys.UNTIDY, time.time() - 60, "inf") == 1
    assert not redis.exists(redis_keys.ORPHANS, redis_keys.ARCHIVES_LOOK)  # a later round looks for those


def test_no_second_janitor_is_at_work(store: Store, redis: Redis) -> None:
    with redis.lock(redis_keys.JANITOR, timeout=60), full(redis):
        assert not Janitor(store, None).look()
