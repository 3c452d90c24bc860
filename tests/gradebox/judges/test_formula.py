"""Tests of the arithmetic of combinations, and of OpenAI's multi graders, which use it."""

import re

import pytest

from gradebox.judges.formula import CHARACTERS, Formula, FormulaError, Undefined


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", 2.0),
        ("0.7 * a + 0.3 * min(b, 1)", 1.7),
        ("2 * a ^ 3", 16.0),
        ("-a ^ 2", -4.0),
        ("a ^ 2 - -b", 7.0),
        ("a ^ b ^ 2", 2.0**9),
        ("(a + b) / 2", 2.5),
        ("max(a, b) - min(a, b, 1)", 2.0),
        ("ceil(a / b) * abs(-b)", 3.0),
        ("abs(-a) + floor(2.7) + ceil(2.1)", 7.0),
        ("exp(0) + sqrt(16) + log(1)", 5.0),
        ("\n a +\n b ", 5.0),
    ],
)
def test_arithmetic(text: str, value: float) -> None:
    assert Formula(text, ["a", "b"]).value({"a": 2.0, "b": 3.0}) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a b", "a; b", "c", "a.real", "__import__(1)", "eval(a)", "a if a else b", "a and b", "not a", "a // b"),
        *("a % b", "a == b", "'a' * 9", "[a]", "{a}", "(x for x in a)", "(a, b)", "max(a, key)", "max(*a)"),
        *("min(a, default = 1)", "lambda: a", "(lambda a: a)(1)", "1j", "None", "True", "...", "a := 1", "await a"),
        *("(" * 300, "(" * 400 + "a" + ")" * 400, "+".join(["a"] * 600), "1" * (CHARACTERS + 1), "ａ"),
        *("max(*a, b)", "(max)(a, b)(a)", "-" * 990 + "(a)", "-" * 999 + "a"),
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max(a)", "max takes 2 or more arguments, and has 1 in max(a)"),
        ("min()", "min takes 2 or more arguments, and has 0 in min()"),
        ("1 + sqrt(a, b)", "sqrt takes 1 argument, and has 2 in sqrt(a, b)"),
        ("log()", "log takes 1 or 2 arguments, and has 0 in log()"),
        ("abs", "names the function abs without arguments: write abs(…)"),
        ("abs(log)", "names the function log without arguments"),
        ("b + a / 0", "divides by zero, whatever the scores are: a / 0"),
        ("a / (1 - 1)", "divides by zero"),
        ("a + log(0)", "log(0) in the formula has no value"),
        ("a * (-1) ^ 0.5", "(-1) ^ 0.5 in the formula has no value"),
        ("9^9^9^9", "has no value"),
        ("exp(9999) * a", "exp(9999) in the formula has no value"),
        ("1e309", "1e309 in the formula is inf, and not a finite number"),
        ("1e308 * 10", "is inf, and not a finite number"),
        ("1" * CHARACTERS, "too large"),
    ],
)
def test_a_formula_that_can_have_no_value_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(said)):
        Formula(text, ["a", "b"])


@pytest.mark.parametrize("text", ["1 / a", "log(-b)", "sqrt(-b)", "(0 - b) ^ 0.5", "exp(9999 * b)", "b * 1e308"])
def test_a_formula_without_a_value_for_these_scores_says_so(text: str) -> None:
    with pytest.raises(Undefined, match="for these scores"):
        Formula(text, ["a", "b"]).value({"a": 0.0, "b": 2.5})


def test_a_function_that_formulas_do_not_have_is_named() -> None:
    with pytest.raises(FormulaError, match=r"cannot use the function round: it is made of the graders a, numbers"):
        Formula("round(a)", ["a"])


@pytest.mark.parametrize(
    ("name", "better"), [("my-grader", "my_grader"), ("my grader", "my_grader"), ("is", None), ("größe", "gr_e")]
)
def test_a_grader_whose_name_a_formula_cannot_use_is_named(name: str, better: str | None) -> None:
    with pytest.raises(FormulaError, match=f"cannot use the name of the grader '{name}': rename it") as refused:
        Formula(f"0.5 * {name}", [name, "other"])
    assert str(refused.value).endswith(f"such as {better}" if better else "with a letter first")


def test_a_formula_may_be_a_long_sum() -> None:
    assert Formula("+".join(["a"] * 450), ["a"]).value({"a": 2.0}) == 900.0
