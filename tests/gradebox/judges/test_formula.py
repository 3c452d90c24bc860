"""Tests of the arithmetic of combinations. More refusals are tested with OpenAI's multi graders, which use it."""

import pytest

from gradebox.judges.formula import CHARACTERS, Formula, FormulaError, Undefined


@pytest.mark.parametrize(
    ("text", "value"), [("0.7 * a + 0.3 * min(b, 1)", 1.7), ("a ^ 2 - -b", 7.0), ("ceil(a / b) * abs(-b)", 3.0)]
)
def test_arithmetic(text: str, value: float) -> None:
    assert Formula(text, ["a", "b"]).value({"a": 2.0, "b": 3.0}) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("text", ["__import__(1)", "a.real", "c", "a if b else a", "1" * (CHARACTERS + 1), "(" * 300])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text, ["a", "b"])


@pytest.mark.parametrize("text", ["a / 0", "9^9^9^9", "1" * CHARACTERS, "max", "log(-a)"])
def test_a_formula_without_a_value_says_so(text: str) -> None:
    with pytest.raises(Undefined):
        Formula(text, ["a"]).value({"a": 2.0})
