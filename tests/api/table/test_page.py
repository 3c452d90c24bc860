"""Tests that pages equal the result of sorting and filtering all outcomes in memory."""

import json
import random
import tracemalloc
from itertools import product
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from api.table.page import PageOf, page
from api.table.row_lines import THREAD_BYTES
from api.table.table_jobs import GraderTable
from gradebox.outcome import CompletionScore, Outcome, OutcomeError, completion_scores, with_completion_scores
from gradebox.schemas.outcome_table import KindFilter, Sort, TablePage
from storage.errors import Conflict
from storage.outcomes import outcomes
from storage.outcomes.outcome_selection import OutcomeFilter
from storage.statistics.outcome_tally import tally
from storage.statistics.summary import summarise
from storage.store import Store
from tests.storage.making import accept, claim, finish, outcomes_of, wanted

ROWS = 3300
SORTS: tuple[Sort, ...] = ("index", "-index", "score", "-score", "run_ms", "-run_ms")
KINDS: tuple[KindFilter | None, ...] = (None, "scored", "not_applicable", "error", "timeout", "memory")
FILTERS = [
    *(OutcomeFilter(kind) for kind in KINDS),
    OutcomeFilter(low=0.25),
    OutcomeFilter(high=0.9),
    OutcomeFilter(low=0.333, high=0.334),
    OutcomeFilter("scored", low=0.1, high=0.7003),
    OutcomeFilter("error", low=0.1),
    OutcomeFilter(low=2.0),
    OutcomeFilter(low=0.6, high=0.5),
    OutcomeFilter(bin=0),
    OutcomeFilter(bin=7),
    OutcomeFilter(bin=9, high=0.95),
]


def thread(number: int) -> bytes:
    said = f"completion of {number}" + " and so on" * (50 if number % 10 == 3 else 0)
    line = {"turns": [["user", "find 1234 in a prompt"], ["assistant", said]], "id": number}
    if number == 9:
        line["turns"] = [["assistant", "completion of 9, \ud800"]]
    if number == 5:
        line["metadata"] = {"long": "x" * THREAD_BYTES}
    return b"{}\n" if number == 7 else json.dumps(line).encode() + b"\n"


def random_outcomes(count: int, grader: str, first: int, chance: random.Random, scores: str) -> list[Outcome]:
    found = []
    for index in range(first, first + count):
        run_ms = chance.choice([chance.random(), 0.25])
        kind = chance.random()
        if kind < 0.1:
            error = OutcomeError(chance.choice(["timeout", "exception"]), f"it failed after {index} s (line 3)")
            found.append(Outcome(index, grader, None, run_ms, error=error))
        elif kind < 0.2:
            found.append(Outcome(index, grader, None, run_ms, not_applicable="no documents"))
        else:
            score = {"all": chance.random(), "few": chance.choice([0.0, 0.5, 1.0]), "heavy": chance.random()}[scores]
            score = 0.5 if scores == "heavy" and chance.random() < 0.4 else score
            found.append(Outcome(index, grader, score, run_ms, reason=f"Grüße, row {index}"))
    return found


@pytest.fixture
def batch(store: Store, request: pytest.FixtureRequest) -> str:
    """An ended batch of two graders with weights, with scores that all differ, or those that a test asks for."""
    scores = getattr(request, "param", "all")
    chance = random.Random(5)
    batch = accept(store, ROWS, wanted(store, "other", 0.5), wanted(store, "exact", 2.0), line=thread)
    while lease := store.leases.claim():
        like = outcomes_of(store, lease)
        made = random_outcomes(len(like), like[0].grader, like[0].index, chance, scores)
        assert finish(store, lease, made)
    return batch


def made(store: Store, batch: str, grader: str = "exact@1") -> GraderTable:
    table = GraderTable(store, store.batches.get("default", batch), grader)
    table.make(lambda: False)
    return table


def read(store: Store, batch: str, grader: str) -> list[Outcome]:
    lines = b"".join(outcomes.read(store.batches, batch))
    return [one for one in msgspec.json.Decoder(Outcome).decode_lines(lines) if one.grader == grader]


def matches(outcome: Outcome, wanted: OutcomeFilter, edges: list[tuple[float, float]]) -> bool:
    kind = "scored" if outcome.score is not None else outcome.error.kind if outcome.error else "not_applicable"
    if wanted.kind not in (None, kind) and not (wanted.kind == "error" and outcome.error):
        return False
    if not wanted.has_range:
        return True
    score = outcome.score
    if score is None:
        return False
    if wanted.bin is not None:
        low, high = edges[0][0], edges[-1][1]
        share = (score - low) / (high - low)
        if min(int(share * 10), 9) != wanted.bin:
            return False
    return (wanted.low is None or score >= wanted.low) and (wanted.high is None or score <= wanted.high)


def ordered(found: list[Outcome], sort: Sort) -> list[int]:
    if sort.endswith("score"):
        scored = sorted((one for one in found if one.score is not None), key=lambda one: one.score or 0.0)
        rest = [one.index for one in found if one.score is None]
        indices = [one.index for one in scored]
        return (indices[::-1] if sort[0] == "-" else indices) + rest
    if sort.endswith("run_ms"):
        found = sorted(found, key=lambda one: one.run_ms)
    indices = [one.index for one in found]
    return indices[::-1] if sort[0] == "-" else indices


def answered(store: Store, table: GraderTable, of: PageOf) -> TablePage:
    return msgspec.json.decode(page(table, of, None), type=TablePage)


@pytest.mark.parametrize(
    "batch,grader",
    [("all", "exact@1"), ("few", "exact@1"), ("heavy", "exact@1"), ("few", "combined")],
    indirect=["batch"],
)
def test_pages_are_what_sorting_and_filtering_all_outcomes_gives(store: Store, batch: str, grader: str) -> None:
    table = made(store, batch, grader)
    every = read(store, batch, grader)
    histogram = summarise(grader, 1.0, tally(every)).histogram
    edges = [(one.low, one.high) for one in histogram]
    for wanted_, sort in product(FILTERS, SORTS):
        expected = ordered([one for one in every if matches(one, wanted_, edges)], sort)
        for number, limit in ((1, 7), (3, 50), (max(1, (len(expected) + 49) // 50), 50), (900, 200)):
            found = answered(store, table, PageOf(wanted_, sort, number, limit))
            start = (number - 1) * limit
            assert [row.index for row in found.rows] == expected[start : start + limit], (wanted_, sort, number)
            assert found.total == len(expected)
    for number, one in enumerate(histogram):  # a bin has as many as the histogram counts
        assert answered(store, table, PageOf(OutcomeFilter(bin=number), "index", 1, 1)).total == one.count


@pytest.mark.parametrize("grader", ["exact@1", "combined"])
def test_rows_are_outcomes_with_the_beginning_of_their_completions(store: Store, batch: str, grader: str) -> None:
    every = read(store, batch, grader)
    rows = answered(store, made(store, batch, grader), PageOf(OutcomeFilter(), "index", 1, 20)).rows
    for row, outcome in zip(rows, every, strict=False):
        fields = {name: getattr(row, name) for name in Outcome.__struct_fields__}
        assert Outcome(**fields) == outcome
        if row.index in (5, 7):
            assert (row.completion, row.cut) == (None, ["completion"] if row.index == 5 else [])
        else:
            assert (row.completion or "").startswith(f"completion of {row.index}")
            assert row.index != 9 or row.completion == "completion of 9, ?"
            assert row.cut == (["completion"] if row.index % 10 == 3 else [])
            assert len(row.completion or "") <= 300


def test_long_texts_are_cut_and_large_parts_left_out(store: Store) -> None:
    batch = accept(store, 5, wanted(store, "exact"))
    lease = claim(store)
    long, one = "ä" * 400, CompletionScore(1.0)
    result = CompletionScore(1.0, reason="z" * 3000, details={"b": 2})
    finish(
        store,
        lease,
        [
            Outcome(0, "exact@1", 1.0, 0.5, reason=long, stdout=long, details={"a": "x" * 3000}),
            Outcome(1, "exact@1", None, 0.5, error=OutcomeError("model", long, reply=long)),
            Outcome(2, "exact@1", 1.0, 0.5, reason="short", details={"a": 1}, values={"v": 1.0}),
            with_completion_scores(Outcome(3, "exact@1", 1.0, 0.5), [result]),
            with_completion_scores(Outcome(4, "exact@1", 1.0, 0.5), [CompletionScore(1.0, "a")] + [one] * 599),
        ],
    )
    first, second, third, fourth, fifth = answered(
        store, made(store, batch), PageOf(OutcomeFilter(), "index", 1, 50)
    ).rows
    assert (first.reason, first.stdout, first.details) == (long[:300], long[:300], None)
    assert first.cut == ["reason", "stdout", "details"]
    assert second.error == OutcomeError("model", long[:300], reply=long[:300])
    assert second.cut == ["error"]
    assert (third.reason, third.details, third.values) == ("short", {"a": 1}, {"v": 1.0})
    assert third.cut == []
    assert (fourth.scores, fourth.details, fourth.completions) == ([1.0], [{"b": 2}], None)
    assert fourth.cut == ["completions"]
    assert (fifth.cut, len(fifth.completions or []), completion_scores(fifth)) == (["scores"], 600, [])


def test_a_text_is_looked_for_in_what_was_said(store: Store, batch: str) -> None:
    table = made(store, batch)
    every = read(store, batch, "exact@1")
    for text in ("1234", "grüße, ROW 123", "failed AFTER", "completion of 77"):
        among = table.search(lambda: False, text)
        assert (among.searched, among.is_cut) == (ROWS, False)
        expected = [
            one
            for one in every
            if text.lower() in f"{one.reason}|{one.error and one.error.message}|completion of {one.index}".lower()
        ]
        for sort in SORTS:
            data = page(table, PageOf(OutcomeFilter(), sort, 1, 200), among)
            found = msgspec.json.decode(data, type=TablePage)
            assert [row.index for row in found.rows] == ordered(expected, sort)[:200], (text, sort)
            assert (found.total, found.searched) == (len(expected), ROWS)


def test_outcomes_that_are_scored_again_have_another_index_and_the_old_one_goes(store: Store) -> None:
    batch = accept(store, 2, wanted(store, "exact"))
    lease = claim(store)
    failed = OutcomeError("infrastructure", "no sandbox", retryable=True)
    finish(store, lease, [Outcome(0, "exact@1", 1.0, 0.5), Outcome(1, "exact@1", None, 0.5, error=failed)])
    unread = made(store, batch)
    assert answered(store, made(store, batch), PageOf(OutcomeFilter("error"), "index", 1, 50)).total == 1
    store.retries.begin("default", batch, lambda lane, units: None)
    assert not GraderTable(store, store.batches.get("default", batch), "exact@1").is_over
    lease = claim(store)
    finish(store, lease, [Outcome(0, "exact@1", 1.0, 0.5), Outcome(1, "exact@1", 0.5, 0.5)])
    after = made(store, batch)
    assert answered(store, after, PageOf(OutcomeFilter("error"), "index", 1, 50)).total == 0
    assert store.spool.indexes(batch) == [after.index.name]
    with pytest.raises(Conflict, match="ask again"):
        answered(store, unread, PageOf(OutcomeFilter(), "index", 1, 50))


def test_a_batch_that_runs_has_its_outcomes_so_far_by_index(store: Store) -> None:
    batch = accept(store, 2500, wanted(store, "other", 1.0), wanted(store, "exact"), line=thread)
    leases = {store.batches.plan(batch).unit(lease.unit): lease for lease in iter(store.leases.claim, None)}  # type: ignore[union-attr]  # the plan exists
    of = dict(zip([(scorer, chunk.first_index) for scorer, chunk in leases], leases.values(), strict=True))
    table = GraderTable(store, store.batches.get("default", batch), "exact@1")
    assert answered(store, table, PageOf(OutcomeFilter(), "index", 1, 50)).rows == []
    for first in (2000, 0, 1000):
        finish(store, of[1, first])
        table = GraderTable(store, store.batches.get("default", batch), "exact@1")
        rows = {2000: 0, 0: 1000, 1000: 2500}[first]  # up to the first gap
        for number, limit in ((1, 50), (6, 180), (13, 200), (20, 200)):
            found = answered(store, table, PageOf(OutcomeFilter(), "index", number, limit))
            expected = list(range(rows))[(number - 1) * limit : number * limit]
            assert [row.index for row in found.rows] == expected
            assert [row.completion for row in found.rows if row.index % 10 == 1] == [
                f"completion of {index}" for index in expected if index % 10 == 1
            ]
            assert (found.total, found.is_over) == (rows, False)
    for scorer, rows in ((1, 0), (0, 1000)):  # combined outcomes are of what both have scored
        if not scorer:
            finish(store, of[0, 0])
        table = GraderTable(store, store.batches.get("default", batch), "combined")
        found = answered(store, table, PageOf(OutcomeFilter(), "index", 1, 200))
        assert (found.total, [row.grader for row in found.rows]) == (rows, ["combined"] * min(rows, 200))


def test_combined_outcomes_are_read_one_after_the_other(store: Store) -> None:
    batch = accept(store, 400, wanted(store, "other", 0.5), wanted(store, "exact"), line=thread)
    while lease := store.leases.claim():
        like = outcomes_of(store, lease)
        finish(store, lease, [replace(one, score=None, not_applicable="x" * 16_000) for one in like])
    table = made(store, batch, "combined")
    tracemalloc.start()
    assert sum(map(len, table.graded.outcomes())) > 12_000_000
    assert len(answered(store, table, PageOf(OutcomeFilter(), "-index", 1, 200)).rows) == 200
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("damage", [None, b"gbindex1", b"no index" * 20_000])
def test_a_damaged_index_is_made_again(store: Store, batch: str, damage: bytes | None) -> None:
    of = PageOf(OutcomeFilter(low=0.25), "-score", 1, 50)
    table = made(store, batch)
    whole = answered(store, table, of)
    path = Path(store.spool.index_range(batch, table.index.name, 0, 1).path)
    path.write_bytes(damage or path.read_bytes()[:20_000])
    assert answered(store, made(store, batch), of) == whole


def test_the_index_goes_with_its_batch(store: Store) -> None:
    batch = accept(store, 2, wanted(store, "exact"))
    finish(store, claim(store))
    made(store, batch)
    store.batches.delete("default", batch)
    store.spool.remove(batch)
    assert store.spool.indexes(batch) == []
    assert batch not in store.spool.batches()
