import tracemalloc
from pathlib import Path

import msgspec
import pytest

from gradebox.outcome import CompletionScore, Outcome, with_completion_scores
from storage.batches import batch_threads
from storage.errors import NotFound, OutcomesLost
from storage.outcomes import outcomes
from storage.outcomes.combined_outcomes import combining_of
from storage.spool import lost_files
from storage.store import Store
from tests.storage.making import accept, claim, finish, finish_all, lines_of, wanted


def read(store: Store, batch: str, after: int = -1, limit: int | None = None) -> list[tuple[int, str]]:
    lines = b"".join(lines_of(store, batch, after, limit))
    return [(one.index, one.grader) for one in msgspec.json.Decoder(Outcome).decode_lines(lines)]


def test_of_a_cancelled_batch_all_threads_that_are_done_are_read(store: Store) -> None:
    batch = accept(store, 3500)
    leases = [claim(store) for _ in range(4)]
    for lease in (leases[1], leases[3]):
        finish(store, lease)
    assert read(store, batch) == []  # in order, while it runs
    assert store.batches.cancel("default", batch).done == 1500
    done = [*range(1000, 2000), *range(3000, 3500)]
    assert [index for index, _ in read(store, batch)] == done
    assert [index for index, _ in read(store, batch, after=1998)] == done[999:]
    assert [index for index, _ in read(store, batch, after=1998, limit=1003)] == done[999:1002]


@pytest.mark.parametrize("weight", [None, 0.5])
def test_each_thread_has_a_line_of_each_grader_in_the_order_of_the_batch_and_a_combined_one_with_weights(
    store: Store, weight: float | None
) -> None:
    batch = accept(store, 1200, wanted(store, "b", weight), wanted(store, "a"))
    leases = [claim(store) for _ in range(4)]
    for lease in leases[:3]:
        finish(store, lease)
    graders = ("b@1", "a@1", *(["combined"] if weight else []))
    size, expected = len(graders), [(index, grader) for index in range(1200) for grader in graders]
    assert read(store, batch) == expected[: 1000 * size]
    finish(store, leases[3])
    assert read(store, batch) == expected
    store.freezer.freeze(batch)
    for after, limit in ((-1, None), (1100, None), (998, 3)):
        assert read(store, batch, after, limit) == expected[size * (after + 1) : limit and size * (after + 1 + limit)]
    picked = b"".join(outcomes.read_picked(store.batches, batch, [7, 1100])).splitlines()
    found = [msgspec.json.decode(line, type=Outcome) for line in picked]
    assert [(one.index, one.grader) for one in found] == [(index, grader) for index in (7, 1100) for grader in graders]
    for whole, b, a in zip(found[2::3], found[::3], found[1::3], strict=True) if weight else ():
        assert whole.score == 0.5 * (b.score or 0.0) + (a.score or 0.0) > 0.0


def test_values_and_details_are_combined_without_being_decoded(store: Store) -> None:
    plan = store.batches.plan(accept(store, 1, wanted(store, "a", 0.5), wanted(store, "b")))
    combining = None if plan is None else combining_of(plan)
    assert combining is not None
    scores = [CompletionScore(1.0, values={"format": 1.0}, details={"steps": [[]] * 2000}) for _ in range(30)]
    of_group = with_completion_scores(Outcome(0, "a@1", 1.0, 0.1), scores)
    single = Outcome(0, "a@1", 1.0, 0.1, values={"format": 1.0}, details={"steps": [[]] * 60_000})
    for outcome in (of_group, single):
        line = msgspec.json.encode(outcome) + b"\n"
        tracemalloc.start()
        whole = msgspec.json.decode(combining([line, line]), type=Outcome)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (whole.score, whole.scores) == (1.5, outcome.scores and [1.5] * 30)
        assert peak < 3 * len(line)


def test_a_large_batch_is_read_in_blocks(store: Store) -> None:
    batch = accept(store, 3000, wanted(store, "a"), wanted(store, "b"))
    finish_all(store)
    sizes = [len(block) for block in outcomes.read(store.batches, batch)]
    assert max(sizes) < 300_000


def test_a_batch_that_is_gone_is_not_an_empty_one(store: Store) -> None:
    batch = accept(store, 10)
    of, one = (store.batches, batch), [0]
    reads = [outcomes.read(*of), outcomes.read_picked(*of, one)]
    reads += [batch_threads.read(*of), batch_threads.read_picked(*of, one)]
    store.batches.delete("default", batch)
    for blocks in reads:
        with pytest.raises(NotFound):
            next(blocks)


def test_reading_goes_on_after_an_index_for_so_many_threads(store: Store) -> None:
    batch = accept(store, 2500, wanted(store, "b"), wanted(store, "a"))
    finish_all(store)
    every = read(store, batch)
    for after, limit in ((-1, 1), (-1, 1000), (-1, 2500), (5, 994), (5, 995), (999, 1), (998, 3), (2498, 9), (2499, 1)):
        assert read(store, batch, after, limit) == every[2 * (after + 1) : 2 * (after + 1 + limit)], (after, limit)
    for after in (0, 998, 999, 1000, 2498, 2499, 99999):
        assert read(store, batch, after) == every[2 * (after + 1) :]


def test_a_limit_needs_no_chunk_behind_it(store: Store) -> None:
    batch = accept(store, 2500)
    finish(store, claim(store))
    assert [index for index, _ in read(store, batch, 10, 5)] == list(range(11, 16))
    assert [index for index, _ in read(store, batch, 998, 5)] == [999]


@pytest.mark.parametrize("names", ["a", "ab"])
def test_outcomes_that_are_cut_off_are_not_the_end(store: Store, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    batch = accept(store, 2500, *(wanted(store, name) for name in names))
    finish_all(store)
    path = Path(store.spool._outcomes(batch, 1, 1))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:400]))
    for after, limit in ((-1, None), (1000, 5), (1000, None)):
        with pytest.raises(OutcomesLost, match="threads 1000 to 1999"):
            read(store, batch, after, limit)
    assert [index for index, _ in read(store, batch, 1999)][:: len(names)] == list(range(2000, 2500))
    assert [index for index, _ in read(store, batch, -1, 1000)][:: len(names)] == list(range(1000))
