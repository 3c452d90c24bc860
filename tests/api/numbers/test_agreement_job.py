import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from api.numbers.jobs import AgreementJob, Side
from gradebox import NotApplicable, StringThread
from gradebox.judges.feedback import Feedback
from gradebox.outcome import Spent
from gradebox.schemas.agreement import Agreement
from tests.earlier_outcomes import in_earlier_form


def outcome(index: int, grader: str, score: float | None, **more: object) -> bytes:
    return json.dumps({"index": index, "grader": grader, "score": score, "run_ms": 1.0, **more}).encode()


def thread(completion: str = "4", **metadata: object) -> bytes:
    return json.dumps({"prompt": "2+2?", "completion": completion, "metadata": metadata}).encode()


def agreed(
    outcomes: list[bytes], threads: list[bytes], label: str = "human@1", threshold: float | None = None
) -> Agreement:
    from api.numbers.agreement_job import run  # here, because it imports SciPy

    of = Side("B", "judge@2", len(threads), Spent(4, 1, 10, 5, 0.25))
    return run(AgreementJob(of, label, threshold, 1000), iter(outcomes), iter(threads))


Pair = tuple[float | None, float | None]


def both(pairs: Sequence[Pair]) -> list[bytes]:
    """Outcomes of the judge and the human."""
    made = []
    for index, (score, label) in enumerate(pairs):
        made += [outcome(index, "judge@2", score), outcome(index, "human@1", label)]
    return made


def test_kappa_accuracy_confusion_and_base_rates_by_hand() -> None:
    from scipy.stats import bootstrap

    # A table like Cohen's: 20 both yes, 5 only the label yes, 10 only the judge yes, 15 both no.
    pairs: list[Pair] = [*[(1, 1)] * 20, *[(0, 1)] * 5, *[(1, 0)] * 10, *[(0, 0)] * 15]
    pairs += [(1, None), (None, 1), (None, None), (None, 0)]
    found = agreed(both(pairs), [thread()] * 54)
    assert (found.rows, found.scored, found.only_grader, found.only_label, found.neither) == (54, 50, 1, 2, 1)
    assert (found.values, found.confusion) == ([0.0, 1.0], [[15, 10], [5, 20]])
    assert (found.grader_rates, found.label_rates) == ([0.4, 0.6], [0.5, 0.5])
    assert found.accuracy == pytest.approx(0.7, abs=1e-12)
    assert found.kappa == pytest.approx(0.4, abs=1e-12)
    assert (found.precision, found.recall) == (20 / 30, 20 / 25)
    assert (found.grader_mean, found.label_mean, found.difference) == (0.6, 0.5, 0.1)
    hits = np.array([1.0] * 20 + [0.0] * 15 + [1.0] * 15)
    wanted = bootstrap((hits,), np.mean, n_resamples=1000, rng=np.random.default_rng(42)).confidence_interval
    assert found.accuracy_interval is not None
    bounds = (found.accuracy_interval.low, found.accuracy_interval.high)
    assert bounds == pytest.approx((wanted.low, wanted.high), rel=0, abs=1e-9)
    assert found.spent is not None and (found.spent.asks, found.spent.kept, found.spent.usd) == (4, 1, 0.25)


def test_threads_without_outcomes_do_not_count() -> None:
    outcomes = [outcome(index, "judge@2", float(index % 2)) for index in (2, 3, 5)]
    found = agreed(outcomes, [thread("4" * index, good=index % 2) for index in range(7)], "metadata.good")
    assert (found.rows, found.scored, found.only_label, found.accuracy) == (3, 3, 0, 1.0)
    assert [(one.shortest, one.longest) for one in found.length.quarters] == [(2, 2), (3, 3), (5, 5)]


def test_kappa_of_three_values_by_hand() -> None:
    from api.numbers.agreement_job import categorical

    labels = np.array([0.0, 0.0, 0.5, 0.5, 1.0, 1.0])
    scores = np.array([0.0, 0.5, 0.5, 0.5, 1.0, 0.0])
    found = categorical(labels, scores, 1000)
    assert found["confusion"] == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    # Observed agreement 4/6; by chance (2·2 + 2·3 + 2·1)/36 = 1/3.
    assert found["kappa"] == pytest.approx((4 / 6 - 1 / 3) / (1 - 1 / 3), abs=1e-12)
    assert (found["precision"], found["recall"]) == (None, None)


def test_one_value_for_all_rows_has_no_kappa_and_none_is_made_up() -> None:
    from api.numbers.agreement_job import categorical

    assert categorical(np.ones(4), np.ones(4), 1000)["kappa"] is None
    assert categorical(np.ones(4), np.zeros(4), 1000)["kappa"] == 0.0
    zeros = categorical(np.zeros(3), np.zeros(3), 1000)
    assert (zeros["accuracy"], zeros["precision"], zeros["recall"]) == (1.0, None, None)
    nothing = agreed(both([(None, 1.0), (1.0, None)]), [thread()] * 2)
    assert (nothing.scored, nothing.accuracy, nothing.kappa, nothing.values) == (0, None, None, [])


def test_spearman_is_that_of_scipy_and_many_values_have_no_confusion() -> None:
    from scipy.stats import spearmanr

    random = np.random.default_rng(4)
    scores, labels = random.random(80), np.floor(random.random(80) * 9)
    found = agreed(both(list(zip(scores, labels, strict=True))), [thread()] * 80)
    wanted = spearmanr(scores, labels)
    assert found.spearman.value == pytest.approx(wanted.statistic, abs=1e-9)
    assert found.spearman.p_value == pytest.approx(wanted.pvalue, abs=1e-9)
    assert (found.values, found.confusion, found.accuracy, found.kappa) == ([], [], None, None)
    by_threshold = agreed(both(list(zip(scores, labels, strict=True))), [thread()] * 80, threshold=0.5)
    assert by_threshold.accuracy == pytest.approx(((scores >= 0.5) == (labels >= 0.5)).mean(), abs=1e-12)
    assert by_threshold.values == [0.0, 1.0]
    assert by_threshold.spearman == found.spearman


def test_a_constant_side_has_no_correlation() -> None:
    from api.numbers.agreement_job import correlation

    assert correlation(np.ones(5), np.arange(5.0)).value is None
    assert correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])).value is None


@pytest.mark.parametrize(
    ("metadata", "label"),
    [
        ({"gold.label": 1}, "metadata.gold.label"),
        ({"gold": {"label": 1}}, "metadata.gold.label"),
        ({"gold_label": 1}, "metadata.gold label"),
        ({"gold.label": 1, "gold": {"label": 0}}, "metadata.gold.label"),
    ],
)
def test_labels_are_found_as_feedback_finds_them(metadata: dict[str, Any], label: str) -> None:
    found = agreed([outcome(0, "judge@2", 1.0)], [thread(**metadata)], label)
    assert (found.scored, found.label_mean) == (1, 1.0)
    feedback = Feedback("m", "settings", "judge", label=label, only_wrong=True)
    given = {"thread": json.loads(thread(**metadata)), "outcome": {"index": 0, "grader": "judge@2", "score": 1.0}}
    with pytest.raises(NotApplicable, match="bears the score out"):
        asyncio.run(feedback(StringThread([("assistant", "")], given)))


def test_labels_may_be_metadata_and_what_is_no_number_is_no_label() -> None:
    values: list[Any] = [1, 0.0, True, "1", None, 10**400, [1], float("inf")]
    threads = [thread(labels={"human": value}) for value in values[:-1]]
    threads += [thread(labels=3), b'{"completion": "4", "metadata": {"labels": {"human": 1e999}}}', b"no thread", b""]
    outcomes = [outcome(index, "judge@2", 1.0) for index in range(len(threads))]
    found = agreed(outcomes, threads, label="metadata.labels.human")
    assert (found.scored, found.only_grader) == (3, len(threads) - 3)
    assert found.confusion == [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("metadata.kind", "metadata.kind is text, for example 'a', in 3 rows: a label is a number or a boolean"),
        ("metadata.of", "metadata.of is an object in 3 rows: a label is a number or a boolean"),
        ("metadata.far", "metadata.far is a number that is not finite in 2 rows, and null in 1 row: a label is"),
        ("metadata.long", f"for example {'x' * 40 + '…'!r}, in 3 rows"),
        ("metadata.nope", "metadata.nope is in no thread; they have kind, of, far, long, ha?lf, missing"),
        ("metadata.of.b", "metadata.of.b is in no thread; they have of.a"),
        ("metadata.kind.b", "metadata.kind.b is in no thread; they have kind"),
        ("human@1", "no row has a score of human@1"),
    ],
)
def test_a_label_that_no_row_has_says_what_there_is(label: str, said: str) -> None:
    metadata: dict[str, Any] = {"kind": "a", "of": {"a": 1}, "far": 10**400, "long": "x" * 99, "ha\ud83dlf": 1}
    threads = [thread(**metadata), thread(**metadata), thread(**metadata | {"far": None}, missing=1)]
    found = agreed([outcome(index, "judge@2", 1.0) for index in range(3)], threads, label)
    assert found.note is not None and said in found.note
    assert len(found.note) < 200


def test_what_lacks_a_score_or_metadata_says_so_and_many_fields_are_cut_short() -> None:
    cancelled = agreed([], [thread(label=1)], "metadata.label")
    assert (cancelled.note or "").startswith("batch B has no rows of judge@2: of a cancelled batch, threads that")
    unscored = agreed([outcome(0, "judge@2", None)], [thread(label=1)], "metadata.label")
    assert unscored.note == "no row has a score of judge@2"
    apart = agreed(both([(None, 1.0), (1.0, None)]), [thread()] * 2)
    assert apart.note == "rows with only a score: 1, with only a label: 1"
    without = agreed([outcome(0, "judge@2", 1.0)], [b'{"completion": "4"}'], "metadata.label")
    assert without.note is not None and "they have no metadata" in without.note
    many = agreed([outcome(0, "judge@2", 1.0)], [thread("4", **dict.fromkeys(map(str, range(99))))], "metadata.label")
    assert many.note is not None and many.note.endswith("18, 19, …")
    assert agreed(both([(1.0, 1.0), (1.0, None)]), [thread()] * 2).note is None


def test_length_bias_is_how_scores_go_with_the_length_of_completions() -> None:
    from scipy.stats import spearmanr

    lengths = [10, 400, 20, 300, 30, 200, 40, 100]
    scores = [0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5]
    labels = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    pairs: list[Pair] = [*zip(scores, labels, strict=True), (1.0, 1.0)]
    without = b'{"messages": [{"role": "user", "content": "no completion"}]}'
    found = agreed(both(pairs), [*(thread("x" * length) for length in lengths), without])
    assert (found.scored, found.length.score.count) == (9, 8)
    assert found.length.score.value == pytest.approx(1.0, abs=1e-12)
    excess = spearmanr(np.subtract(scores, labels), lengths)
    assert found.length.excess.value == pytest.approx(excess.statistic, abs=1e-9)
    quarters = [(one.shortest, one.longest, one.count) for one in found.length.quarters]
    assert quarters == [(10, 20, 2), (30, 40, 2), (100, 200, 2), (300, 400, 2)]
    assert [one.mean for one in found.length.quarters] == pytest.approx([0.15, 0.35, 0.55, 0.75])


def test_positional_bias_is_counted_where_both_orders_were_asked() -> None:
    details: list[dict[str, Any]] = [
        {"positional_bias": {"detected": True, "option": "no"}},
        {"positional_bias": {"detected": False}},
        {"positional_bias": "yes"},
        {},
    ]
    outcomes = [outcome(index, "judge@2", 1.0, details=one) for index, one in enumerate(details)]
    found = agreed(outcomes, [thread()] * 4)
    assert (found.position.checked, found.position.detected) == (2, 1)


@pytest.mark.parametrize("is_earlier", [False, True])
def test_positional_bias_of_a_group_is_counted_once_for_each_contest(is_earlier: bool) -> None:
    contests = [
        [{"against": [2], "won": True, "biased": True}, {"against": [3], "won": None, "biased": False}],
        [{"against": [1], "won": False, "biased": True}, {"against": [3], "won": True, "biased": True}],
        [{"against": [1], "won": None, "biased": False}, {"against": [2], "won": False, "biased": True}],
    ]
    details = [{"contests": each} for each in contests]
    outcomes = [outcome(index, "judge@2", 0.5, scores=[0.5] * 3, details=details) for index in range(2)]
    if is_earlier:
        outcomes = [in_earlier_form(line) for line in outcomes]
    found = agreed(outcomes, [thread()] * 2)
    assert (found.position.checked, found.position.detected) == (6, 4)


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"completion": "abc", "metadata": {"label": 1}}',
        b'{"completion": "ab\\ud83d", "metadata": {"label": 1}}',
        b'{"completion": "abc", "metadata": {"label": 1, "far": 1e999}}',
    ],
)
def test_lines_that_graders_are_given_have_lengths_and_labels(line: bytes) -> None:
    """msgspec refuses a byte order mark, half of a surrogate pair, and an infinite number."""
    found = agreed([outcome(index, "judge@2", 1.0) for index in range(3)], [line] * 3, "metadata.label")
    assert (found.scored, found.only_grader, found.length.score.count) == (3, 0, 3)
    assert [quarter.longest for quarter in found.length.quarters] == [3, 3, 3]
