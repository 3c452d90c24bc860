import json
from collections.abc import Sequence

import numpy as np
import pytest

from api.numbers.jobs import ComparisonJob, Side
from api.numbers.outcome_column import read
from gradebox.outcome import Spent
from gradebox.schemas.comparison import Comparison, Flip
from storage.statistics.summary import bin_of

Row = tuple[str | int | None, float | str | None]


def lines(rows: Sequence[Row], grader: str = "g@1") -> list[bytes]:
    """Lines of outcomes: a number is a score, a text is the kind of an error, and None is not applicable."""
    made = []
    for index, (name, found) in enumerate(rows):
        one: dict[str, object] = {"index": index, "grader": grader, "score": None, "run_ms": 1.0}
        if name is not None:
            one["id"] = name
        if isinstance(found, str):
            one["error"] = {"kind": found, "message": "", "retryable": False}
        else:
            one |= {"score": found} if found is not None else {"not_applicable": "no"}
        made.append(json.dumps(one).encode())
    return made


def compared(a: list[bytes], b: list[bytes], threshold: float = 1.0, flips: int = 100) -> Comparison:
    sides = Side("A", "g@1", len(a), Spent(3, 1, 20, 10, 0.5)), Side("B", "g@1", len(b))
    from api.numbers.comparison_job import run  # here, because it imports SciPy

    return run(ComparisonJob(*sides, threshold, flips, 1000), read(a, "g@1"), read(b, "g@1"))


def test_rows_are_paired_by_id_in_whichever_order_they_come() -> None:
    a: list[Row] = [("x", 1.0), ("y", 0.0), ("z", 0.5), ("only a", 1.0)]
    a += [("failed", "timeout"), ("na", 1.0), ("none", "model")]
    b: list[Row] = [("z", 0.25), ("failed", 1.0), ("y", 1.0), ("x", 1.0)]
    b += [("only b", 0.0), ("na", None), ("none", None), (None, 1.0)]
    found = compared(lines(a), lines(b))
    assert (found.paired_by, found.pairs, found.only_a, found.only_b, found.repeated_ids) == ("id", 6, 1, 2, 0)
    assert (found.scored, found.scored_only_a, found.scored_only_b, found.scored_neither) == (3, 1, 1, 1)
    assert (found.mean_a, found.mean_b, found.difference) == (0.5, 0.75, 0.25)
    assert (found.higher, found.lower, found.same) == (1, 1, 1)
    assert (found.passed_a, found.passed_b, found.flipped_up, found.flipped_down) == (1, 2, 1, 0)
    assert found.flips == [Flip(id="y", index_a=1, index_b=2, score_a=0.0, score_b=1.0)]
    assert (found.a.rows, found.a.scored, found.a.not_applicable) == (7, 5, 0)
    assert (found.b.rows, found.b.scored, found.b.not_applicable) == (8, 6, 2)
    assert (found.a.errors, found.b.errors) == ({"timeout": 1, "model": 1}, {})
    assert (found.a.mean, found.b.spent) == (0.7, None)
    assert found.a.spent is not None and (found.a.spent.asks, found.a.spent.kept, found.a.spent.usd) == (3, 1, 0.5)


def test_the_interval_is_that_of_the_paired_differences_in_the_order_of_a() -> None:
    from scipy.stats import bootstrap

    random = np.random.default_rng(9)
    before, after = random.random(150), random.random(150)
    order = random.permutation(150)
    a = lines([(f"t{n}", before[n]) for n in range(150)])
    b = lines([(f"t{n}", after[n]) for n in order])
    found = compared(a, b)
    wanted = bootstrap((after - before,), np.mean, n_resamples=1000, rng=np.random.default_rng(42)).confidence_interval
    assert found.interval is not None and found.interval.method == "bca"
    assert (found.interval.low, found.interval.high) == pytest.approx((wanted.low, wanted.high), rel=0, abs=1e-9)
    assert found.difference == pytest.approx((after - before).mean(), rel=0, abs=1e-12)


def test_rows_without_ids_are_paired_by_position() -> None:
    found = compared(lines([(None, 1.0), (None, 0.0), (None, 1.0)]), lines([("x", 0.0), ("y", 0.0)]))
    assert (found.paired_by, found.pairs, found.only_a, found.only_b) == ("index", 2, 1, 0)
    assert (found.flipped_down, found.flips[0].index_a) == (1, 0)


def test_ids_that_come_again_are_paired_in_order_and_counted() -> None:
    a = lines([("x", 0.0), ("x", 1.0), ("y", 1.0), ("x", 0.5)])
    b = lines([("y", 1.0), ("x", 0.25), ("x", 0.0)])
    found = compared(a, b)
    assert (found.pairs, found.only_a, found.only_b, found.repeated_ids) == (3, 1, 0, 3)
    assert [(one.score_a, one.score_b) for one in found.flips] == [(1.0, 0.0)]
    assert (found.mean_a, found.mean_b) == (2 / 3, 1.25 / 3)


def test_a_number_and_a_text_are_two_ids() -> None:
    found = compared(lines([(1, 0.0), (2, 0.0)]), lines([("1", 0.0), ("2", 1.0)]))
    assert found.pairs == 0
    assert found.note is not None
    assert found.note.startswith("rows whose id is a number in one batch and text in the other: 2. ")


def test_some_ids_that_differ_in_type_are_noted_also_if_others_are_paired() -> None:
    a = lines([(1, 0.0), (1, 0.5), ("x", 1.0), ("y", 1.0)])
    found = compared(a, lines([("1", 0.0), ("1", 0.5), ("x", 1.0), (2, 1.0)]))
    assert (found.pairs, found.scored, found.only_a, found.only_b) == (1, 1, 3, 3)
    assert (found.note or "").startswith("rows whose id is a number in one batch and text in the other: 2.")
    assert found.note is not None and found.note in found._repr_html_().replace("&quot;", '"').replace("&#x27;", "'")
    assert compared(lines([(1, 0.0), ("1", 1.0)]), lines([("1", 0.0), (1, 0.5)])).note is None


def test_threads_without_ids_in_batches_of_different_sizes_are_noted() -> None:
    a, b = lines([(None, 0.0), (None, 1.0)]), lines([("x", 1.0), ("y", 1.0), ("z", 0.0)])
    found = compared(a, b)
    assert (found.paired_by, found.scored) == ("index", 2)
    assert (found.note or "").startswith("batch A has 2 threads and B 3, and not both have ids: rows are paired")
    assert compared(a, b[:2]).note is None
    assert compared(b, lines([("y", 1.0)])).note is None


def test_flips_follow_the_threshold_and_the_largest_come_first() -> None:
    a = lines([(n, score) for n, score in enumerate([0.4, 0.6, 0.0, 0.9, 0.5])])
    b = lines([(n, score) for n, score in enumerate([0.6, 0.4, 1.0, 0.1, 0.6])])
    found = compared(a, b, threshold=0.5)
    assert (found.flipped_up, found.flipped_down, [one.id for one in found.flips]) == (2, 2, [2, 3, 0, 1])
    assert [one.id for one in compared(a, b, threshold=0.5, flips=2).flips] == [2, 3]


def test_nothing_to_compare_has_no_numbers() -> None:
    one, other = lines([("x", 1.0)]), lines([("y", 1.0)])
    for a, b, note in (
        ([], [], "batch A has no rows"),
        (one, [], "batch B has no rows"),
        (one, other, "equal threads"),
    ):
        found = compared(a, b)
        assert (found.pairs, found.scored, found.difference, found.interval, found.mean_a) == (0, 0, None, None, None)
        assert note in (found.note or "")
    unscored = compared(lines([("x", 1.0)]), lines([("x", "timeout")]))
    assert (unscored.pairs, unscored.note) == (1, "no pair has a score on both sides")


def test_differences_that_overflow_are_none() -> None:
    found = compared(lines([(1, -1.7e308), (2, 0.0)]), lines([(1, 1.7e308), (2, 0.0)]))
    assert (found.difference, found.interval, found.higher) == (None, None, 1)
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_pairs_are_counted_by_both_scores() -> None:
    a: list[Row] = [(None, score) for score in (0.0, 0.0, 0.5, 1.0, "timeout")]
    b: list[Row] = [(None, score) for score in (0.0, 1.0, 0.55, 1.0, 1.0)]
    found = compared(lines(a), lines(b)).pair_counts
    assert found is not None and (found.low, found.high) == (0.0, 1.0)
    told = {(row, at): count for row, of in enumerate(found.counts) for at, count in enumerate(of) if count}
    assert told == {(0, 0): 1, (0, 9): 1, (5, 5): 1, (9, 9): 1}
    assert compared(lines([(None, 1.0)]), lines([(None, 1.0)])).pair_counts is None
    assert compared(lines([(None, "timeout")]), lines([(None, 1.0)])).pair_counts is None
    largest: list[Row] = [(None, 1.7e308), (None, -1.7e308)]
    assert compared(lines(largest), lines(largest)).pair_counts is None  # the range does not fit into a float


@pytest.mark.parametrize("low", [0.0, -1.0, -0.5])
def test_scores_at_an_edge_are_in_the_bin_of_the_summary(low: float) -> None:
    tenths = [round(low + number / 10, 9) for number in range(11)]
    found = compared(lines([(None, score) for score in tenths]), lines([(None, score) for score in tenths])).pair_counts
    assert found is not None and [found.counts[place][place] for place in range(10)] == [1] * 9 + [2]
    assert [bin_of(score, low, low + 1) for score in tenths] == [*range(10), 9]
