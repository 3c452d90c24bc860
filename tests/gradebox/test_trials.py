"""Tests of pass@k, pass^k and the pass rate, against numbers from all possible draws."""

from itertools import combinations
from typing import Any

import pytest

from gradebox.outcome import CompletionScore, Outcome, OutcomeError, with_completion_scores
from gradebox.trials import trials

FAILED = OutcomeError("timeout", "too slow")


def outcome(key: str | int | None, score: float | None, index: int = 0, **more: Any) -> Outcome:
    return Outcome(index, "g@1", score, 1.0, id=key, **more)


def prompt(key: str | int, *scores: float) -> list[Outcome]:
    return [outcome(key, score) for score in scores]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scores", [(1, 0, 0, 1, 0), (0, 0, 0, 0, 0), (1, 1, 1, 1, 1), (1, 1, 1, 1, 0)])
def test_they_are_what_drawing_comes_to(scores: tuple[float, ...], k: int) -> None:
    draws = list(combinations(scores, k))
    found = trials(prompt("a", *scores), k)
    assert found.pass_at_k == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)
    assert found.pass_hat_k == pytest.approx(sum(map(all, draws)) / len(draws), abs=1e-12)
    assert found.pass_rate == pytest.approx(sum(scores) / len(scores), abs=1e-12)


def test_with_one_drawn_all_rates_are_equal() -> None:
    for passed in range(11):
        found = trials(prompt("a", *[1] * passed, *[0] * (10 - passed)), 1)
        assert found.pass_at_k == found.pass_hat_k == found.pass_rate == passed / 10


def test_with_as_many_as_there_are_they_say_any_and_all() -> None:
    found = trials([*prompt("a", 1, 0, 1), *prompt("b", 1, 1, 1), *prompt(3, 0, 0, 0)], 3)
    assert [(one.key, one.pass_at_k, one.pass_hat_k) for one in found.prompts] == [("a", 1, 0), ("b", 1, 1), (3, 0, 0)]
    assert found.pass_at_k == pytest.approx(2 / 3)
    assert found.pass_hat_k == pytest.approx(1 / 3)
    assert found.pass_rate == pytest.approx(5 / 9)
    assert (found.counted, found.too_few) == (3, 0)


def test_what_has_no_score_is_counted_apart_and_is_no_fail() -> None:
    odd = [outcome("a", None, error=FAILED), outcome("a", None, not_applicable="no")]
    found = trials([*prompt("a", 1, 1), *odd], 2)
    assert (found.pass_at_k, found.pass_hat_k, found.pass_rate) == (1, 1, 1)
    assert (found.errors, found.not_applicable, found.prompts[0].decided) == ({"timeout": 1}, 1, 2)


def test_a_prompt_with_too_few_decided_is_in_no_mean() -> None:
    found = trials([*prompt("a", 1, 1), *prompt("b", 0), outcome("b", None, error=FAILED)], 2)
    assert (found.pass_at_k, found.pass_rate, found.counted, found.too_few) == (1, 1, 1, 1)
    assert (found.prompts[1].pass_at_k, found.prompts[1].pass_rate) == (None, 0)
    nothing = trials([outcome("a", None, error=FAILED)], 1)
    assert (nothing.pass_at_k, nothing.pass_hat_k, nothing.pass_rate, nothing.too_few) == (None, None, None, 1)


def test_a_failed_row_of_no_prompt_is_counted() -> None:
    found = trials([*prompt("a", 1), outcome(None, None, error=OutcomeError("bad_input", "no thread"))], 1)
    assert (found.without_key, found.errors, found.counted) == (1, {"bad_input": 1}, 1)


def test_a_member_of_the_metadata_tells_prompts_apart() -> None:
    rows = [("a", 1.0), ("b", 0.0), ("a", 0.0), ("b", 0.0)]
    pairs: list[Any] = [(outcome(None, score), {"completion": "x", "metadata": {"task": key}}) for key, score in rows]
    pairs.append((outcome(None, None, error=OutcomeError("bad_input", "no thread")), "no JSON"))
    found = trials(pairs, 2, by="task")
    assert [(one.key, one.pass_at_k) for one in found.prompts] == [("a", 1), ("b", 0)]
    assert (found.pass_at_k, found.without_key) == (0.5, 1)


def test_each_completion_of_a_group_counts() -> None:
    scores = [CompletionScore(1.0), CompletionScore(0.0), CompletionScore(None, error=FAILED)]
    passed_over = [scores[0], CompletionScore(None, not_applicable="no")]
    groups = [
        with_completion_scores(outcome("a", 0.5), scores[:2]),
        with_completion_scores(outcome("b", None, error=FAILED), scores),
        outcome("c", None, error=FAILED),
        with_completion_scores(outcome("d", None, not_applicable="no"), passed_over),
    ]
    found = trials(groups, 1)
    counted = [(one.decided, one.passed, one.pass_at_k) for one in found.prompts]
    assert counted == [(2, 1, 0.5), (2, 1, 0.5), (0, 0, None), (1, 1, 1)]
    assert (found.errors, found.not_applicable) == ({"timeout": 2}, 1)
    with pytest.raises(ValueError, match="no 'task' in its metadata"):  # which may have scores
        trials([(groups[1], {"threads": []})], 1, by="task")


def test_the_least_score_that_passes() -> None:
    scores = prompt("a", 0.5, 0.49)
    assert (trials(scores, 1, threshold=0.5).pass_rate, trials(scores, 1).pass_rate) == (0.5, 0)


@pytest.mark.parametrize(
    ("outcomes", "given", "message"),
    [
        ([], {"k": 0}, "k= takes"),
        ([], {"k": True}, "k= takes"),
        ([outcome(None, 1.0, index=7)], {"k": 1}, 'position 7 has no "id"'),
        (prompt("a", 1), {"k": 1, "by": "task"}, r"outcomes\(threads=True\)"),
        ([(outcome("a", 1.0), {"metadata": {"task": 1.5}})], {"k": 1, "by": "task"}, "has no 'task' in its metadata"),
        ([(outcome("a", 1.0), {"completion": "x"})], {"k": 1, "by": "task"}, "has no 'task' in its metadata"),
        ([outcome("a", 1.0), Outcome(0, "h@1", 1.0, 1.0, id="a")], {"k": 1}, "g@1, h@1"),
    ],
)
def test_what_cannot_be_counted_is_said(outcomes: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trials(outcomes, **given)
