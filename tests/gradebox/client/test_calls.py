"""Tests of the client's requests."""

from fractions import Fraction
from typing import Any

import pytest

from gradebox import BatchBudget
from gradebox.client.calls import batch_calls, grader_calls, server_calls
from gradebox.errors import GradeboxError


@pytest.mark.parametrize("graders", [["g", "g"], ("h", "g@1", "g@1")])
def test_a_grader_named_twice_is_refused(graders: Any) -> None:
    with pytest.raises(ValueError, match=r"the grader 'g(@1)?' is named twice: name it once"):
        batch_calls.create_batch("default", graders, [])
    with pytest.raises(ValueError, match="is named twice"):
        batch_calls.create_batch_of("default", graders, "B")


@pytest.mark.parametrize("budget", [0.5, {"usd": 0.5}, "1"])
def test_a_budget_that_is_none_says_how_one_is_written(budget: Any) -> None:
    for create in (batch_calls.create_batch, batch_calls.create_batch_of):
        with pytest.raises(TypeError, match=r"is no budget: write gradebox.BatchBudget\(usd=0.5\)"):
            create("default", "g", "B", budget)


def test_a_budget_without_a_limit_is_not_sent_as_none() -> None:
    """`BatchBudget(cost=2.5)`, as it was written once, had no limit, and the batch had no budget."""
    for create in (batch_calls.create_batch, batch_calls.create_batch_of):
        with pytest.raises(ValueError, match="no limit: give usd=, tokens= or both"):
            create("default", "g", "B", BatchBudget())
    with pytest.raises(TypeError, match="cost= is no option of BatchBudget: pass one of usd=, tokens="):
        BatchBudget.model_validate({"cost": 2.5, "tokens": 100})
    with pytest.raises(TypeError, match="heat= is no option of ModelDefaults: pass one of temperature="):
        server_calls.model_body({"defaults": {"heat": 0}})
    assert BatchBudget.model_validate_json('{"usd": 1, "new": 2}') == BatchBudget(usd=1)  # of a newer service


@pytest.mark.parametrize("key", ["", "a/b", 5, None])
def test_what_is_no_key_is_not_sent(key: Any) -> None:
    with pytest.raises(GradeboxError, match="is no key or id: pass text"):
        grader_calls.score("default", key, None, [])


def test_bounds_are_sent_as_python_numbers() -> None:
    third = Fraction(1, 3)
    params = batch_calls.agreement("default", "B", None, "metadata.good", third).params  # type: ignore[arg-type]
    assert ("threshold", repr(1 / 3)) in params
    page = batch_calls.table("default", "B", None, None, third, third, None, None, "index", 1, 5)  # type: ignore[arg-type]
    assert {("low", repr(1 / 3)), ("high", repr(1 / 3))} <= set(page.params)
    with pytest.raises(ValueError, match="could not convert"):
        batch_calls.agreement("default", "B", None, "metadata.good", "high")  # type: ignore[arg-type]


def test_a_number_that_is_not_finite_is_named() -> None:
    with pytest.raises(ValueError, match="timeout_s= is inf, and must be a finite number"):
        grader_calls.create_grader("default", {"key": "g", "source": "", "timeout_s": float("inf")}, None)
