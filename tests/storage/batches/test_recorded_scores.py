import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from random import Random

import msgspec
import pytest
from redis import Redis

from gradebox.outcome import Outcome
from storage import redis_keys
from storage.access.quotas import Quotas
from storage.batches.recorded_scores import MOST_GRADERS, RecordedScores
from storage.errors import Conflict, NotFound, OutcomesLost, QuotaExceeded
from storage.janitor import TIDY_S, Janitor
from storage.outcomes import outcomes
from storage.spool import lost_files
from storage.spool.spool import Spool
from storage.store import Store
from tests.object_store import object_store
from tests.storage.making import accept, claim, finish, finish_all, lines_of, wanted

_decode = msgspec.json.Decoder(Outcome).decode_lines


def scored(grader: str, **scores: float) -> list[Outcome]:
    return [Outcome(int(name[1:]), grader, score, 0.0) for name, score in scores.items()]


def read(store: Store, batch: str, after: int = -1) -> list[tuple[int, str, float | None]]:
    lines = b"".join(lines_of(store, batch, after))
    return [(one.index, one.grader, one.score) for one in _decode(lines)]


def over(store: Store, threads: int) -> str:
    batch = accept(store, threads, wanted(store, "a"), wanted(store, "b"))
    finish_all(store)
    return batch


def files(store: Store, batch: str) -> int:
    return sum("recorded" in path for path in store.spool._files_of(batch))


@pytest.mark.parametrize("frozen", [False, True])
def test_they_stand_behind_the_outcomes_of_their_threads(store: Store, frozen: bool) -> None:
    batch = over(store, 2500)
    if frozen:
        store.freezer.freeze(batch)
    before = read(store, batch)
    store.recorded.record("default", batch, scored("human@1", _3=0.5, _1200=1.0, _2499=0.0))
    store.recorded.record("default", batch, scored("crowd@2", _3=2.0))
    found = read(store, batch)
    assert [one for one in found if one[1] in ("a@1", "b@1")] == before
    assert found[6:10] == [before[6], before[7], (3, "crowd@2", 2.0), (3, "human@1", 0.5)]
    assert found[-1] == (2499, "human@1", 0.0)
    assert len(found) == 5000 + 4
    for after in (2, 3, 999, 1199, 2498):
        assert read(store, batch, after) == [one for one in found if one[0] > after]
    crowd, human = store.batches.get("default", batch).recorded
    assert (crowd.grader, crowd.count, human.grader, human.count, human.mean) == ("crowd@2", 1, "human@1", 3, 0.5)
    if not frozen:
        store.freezer.freeze(batch)
        assert read(store, batch) == found


def picked(store: Store, batch: str, *indices: int) -> list[tuple[int, str, float | None]]:
    lines = b"".join(outcomes.read_picked(store.batches, batch, indices))
    return [(one.index, one.grader, one.score) for one in _decode(lines)]


@pytest.fixture(params=["folder", "object store"])
def anywhere(request: pytest.FixtureRequest, redis: Redis, store: Store) -> Iterator[Store]:
    """A store whose spool is a folder, or an object store."""
    if request.param == "folder":
        yield store
    else:
        with object_store() as url:
            yield Store(redis, Spool(url))


def test_any_row_is_found_among_lines_of_any_length(anywhere: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside threads without a recorded score, before the first one and after the last one."""
    monkeypatch.setattr("storage.batches.recorded_scores._FAR", 3)
    monkeypatch.setattr("storage.batches.recorded_scores._BLOCK_BYTES", 1024)
    store, some = anywhere, Random(1)
    batch = over(store, 500)
    for grader, share in (("dense@1", 1.0), ("some@1", 0.3), ("few@1", 0.01)):
        of = [index for index in range(20, 480) if some.random() < share]
        told = {index: "r" * some.choice([0, 0, 10, 500]) for index in of}
        scores = [Outcome(index, grader, float(index), 0.0, reason=told[index] or None) for index in of]
        store.recorded.record("default", batch, scores)
    found = read(store, batch)
    assert len(found) > 1000 + 460 + 100
    few = [index for index, grader, _ in found if grader == "few@1"]
    for index in (0, few[1], 277, 499):
        assert picked(store, batch, index) == [one for one in found if one[0] == index]
    assert read(store, batch, 450) == [one for one in found if one[0] > 450]
    for rows in (range(490, 500), some.sample(range(500), 5)):
        assert picked(store, batch, *rows) == [one for one in found if one[0] in rows]


def test_a_row_of_a_large_batch_costs_little(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = accept(store, 30_000)
    finish_all(store)
    scores = [Outcome(index, "human@1", 1.0, 0.0) for index in range(30_000)]
    store.recorded.record("default", batch, scores)
    (size,) = [Path(store.spool._recorded(batch, name)).stat().st_size for name in store.spool.recorded_files(batch)]
    taken: list[int] = []

    class Counted(FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size) or b""
            taken.append(len(data))
            return data

    monkeypatch.setattr(store.spool, "open_recorded", lambda *names: Counted(store.spool._recorded(*names)))
    for index in (0, 15_000, 29_999):
        taken.clear()
        assert picked(store, batch, index)[1] == (index, "human@1", 1.0)
        assert 0 < sum(taken) < size / 10
    taken.clear()
    assert len(picked(store, batch, *range(29_950, 30_000))) == 100
    assert sum(taken) < size / 10
    taken.clear()
    assert len(read(store, batch, after=29_990)) == 18
    assert sum(taken) < size / 10


def test_a_score_that_comes_again_takes_the_place_of_the_first(store: Store) -> None:
    batch = over(store, 10)
    store.recorded.record("default", batch, scored("human@1", _1=0.25, _5=0.25, _9=0.25))
    store.recorded.record("default", batch, scored("human@1", _0=1.0, _5=1.0))
    found = [(index, score) for index, grader, score in read(store, batch) if grader == "human@1"]
    assert found == [(0, 1.0), (1, 0.25), (5, 1.0), (9, 0.25)]
    (human,) = store.batches.get("default", batch).recorded
    assert (human.count, human.mean, human.minimum, human.passed) == (4, 0.625, 0.25, 2)
    store.recorded.record("default", batch, scored("human@1", _5=0.0))
    assert files(store, batch) == 2  # the current file and the previous one, which may still be read


def test_those_of_threads_that_are_not_done_wait(store: Store) -> None:
    batch = accept(store, 1500)
    store.recorded.record("default", batch, scored("human@1", _10=1.0, _1400=1.0))
    assert read(store, batch) == []
    finish(store, claim(store))
    both = [(10, "exact@1", 10.0), (10, "human@1", 1.0)]
    assert read(store, batch, 9)[:2] == both
    assert read(store, batch)[-1][0] == 999
    assert picked(store, batch, 1400, 10, 11) == [*both, (11, "exact@1", 11.0)]


def test_who_reads_sees_one_upload_whole(store: Store) -> None:
    """A reader sees neither a removed file nor a mix of two uploads."""
    batch = over(store, 300)
    store.recorded.record("default", batch, [Outcome(index, "human@1", 0.0, 0.0) for index in range(300)])
    ended = threading.Event()

    def record() -> None:
        for number in range(1, 60):
            store.recorded.record("default", batch, [Outcome(index, "human@1", number, 0.0) for index in range(300)])
        ended.set()

    with ThreadPoolExecutor(1) as writing:
        written = writing.submit(record)
        seen = []
        while not ended.is_set():
            found = [score for _, grader, score in read(store, batch) if grader == "human@1"]
            assert len(found) == 300
            assert len(set(found)) == 1
            seen.append(found[0])
        written.result()
    assert len(set(seen)) > 2
    assert seen == sorted(seen)  # type: ignore[type-var]  # every outcome has a score


def test_of_several_that_record_at_once_none_is_lost(store: Store) -> None:
    batch = over(store, 40)

    def record(index: int) -> None:
        while True:
            try:
                return store.recorded.record("default", batch, scored("human@1", **{f"_{index}": float(index)}))
            except Conflict:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(record, range(40)))
    found = [(index, score) for index, grader, score in read(store, batch) if grader == "human@1"]
    assert found == [(index, float(index)) for index in range(40)]
    assert files(store, batch) == 2


def test_a_batch_that_is_gone_takes_none_and_nothing_is_left(store: Store, redis: Redis) -> None:
    batch = over(store, 10)
    stored = int(redis.hget(redis_keys.STORED, "default") or 0)
    store.recorded.record("default", batch, scored("human@1", _1=1.0))
    store.recorded.record("default", batch, scored("human@1", _1=1.0, _2=1.0))
    size = sum(len(line) for line in outcomes.read(store.batches, batch)) and int(
        redis.hget(redis_keys.recorded(batch), "bytes") or 0
    )
    assert size > 100
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == stored + size
    store.batches.delete("default", batch)
    store.spool.remove(batch)
    assert not redis.exists(redis_keys.recorded(batch))
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == 0
    with pytest.raises(NotFound, match="was deleted meanwhile: nothing was recorded"):
        store.recorded.record("default", batch, scored("human@1", _1=1.0))
    assert not store.spool._files_of(batch)
    assert not redis.exists(redis_keys.recorded(batch))


def test_they_count_for_what_a_project_may_keep_and_for_how_many_graders(store: Store) -> None:
    batch = over(store, 10)
    for number in range(MOST_GRADERS):
        store.recorded.record("default", batch, scored(f"human-{number}@1", _1=1.0))
    with pytest.raises(Conflict, match="has scores of 16 graders"):
        store.recorded.record("default", batch, scored("human-x@1", _1=1.0))
    store.recorded.record("default", batch, scored("human-0@1", _1=0.0))
    before = files(store, batch)
    full = RecordedScores(store.redis, store.spool, store.audit, Quotas(spool_bytes=100))
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SPOOL_GB"):
        full.record("default", batch, scored("human-0@1", _1=0.0, _2=0.0))
    assert files(store, batch) == before


def test_long_reasons_are_rewritten_a_part_at_a_time(store: Store) -> None:
    batch = over(store, 150)
    reason = "\x01" * 65_536  # six bytes per character in JSON: 59 MB
    for start in range(0, 150, 50):
        told = [Outcome(index, "human@1", 1.0, 0.0, reason=reason) for index in range(start, start + 50)]
        store.recorded.record("default", batch, told)
    tracemalloc.start()
    try:
        store.recorded.record("default", batch, scored("human@1", _7=0.0))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    (human,) = store.batches.get("default", batch).recorded
    assert (human.count, human.passed, human.minimum) == (150, 149, 0.0)


@pytest.mark.parametrize("over_already", [False, True])
def test_what_a_process_leaves_that_is_killed_is_removed(store: Store, redis: Redis, over_already: bool) -> None:
    batch = over(store, 10) if over_already else accept(store, 10)
    for score in (0.0, 1.0):
        store.recorded.record("default", batch, scored("human@1", _1=score))

    class Killed(Exception):
        pass

    def killed(**_: object) -> None:
        raise Killed

    ends = RecordedScores(redis, store.spool, store.audit, Quotas())
    ends._record = killed  # type: ignore[assignment]
    with pytest.raises(Killed):
        ends.record("default", batch, scored("human@1", _2=1.0))
    assert files(store, batch) == 3
    Janitor(store, None).look()
    assert files(store, batch) == 3  # the process may still be recording
    redis.zadd(redis_keys.UNTIDY, {batch: time.time() - TIDY_S - 1})
    store.recorded.remove_unnamed(batch, time.time() - 2 * TIDY_S)
    assert files(store, batch) == 3
    Janitor(store, None).look()
    assert files(store, batch) == 2
    (human,) = store.batches.get("default", batch).recorded
    assert (human.count, human.mean) == (1, 1.0)
    store.recorded.record("default", batch, scored("human@1", _3=0.0))
    assert files(store, batch) == 2


@pytest.mark.parametrize("is_gone", [True, False])
def test_lost_scores_are_an_error_that_stays(store: Store, monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    batch = over(store, 10)
    store.recorded.record("default", batch, scored("human@1", _1=0.25, _5=0.25, _9=0.25))
    (name,) = store.spool.recorded_files(batch)
    path = Path(store.spool._recorded(batch, name))
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(OSError, match=r"No such file|bytes of"):
        read(store, batch)
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    with pytest.raises(OutcomesLost, match="record the scores in that"):
        read(store, batch)
    with pytest.raises(OutcomesLost):
        store.recorded.record("default", batch, scored("human@1", _0=1.0))
    assert [one.count for one in store.batches.get("default", batch).recorded] == [3]
