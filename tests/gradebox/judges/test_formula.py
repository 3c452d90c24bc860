"""Tests of the arithmetic of combinations, and of OpenAI's multi graders, which use it."""

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
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text, ["a", "b"])


@pytest.mark.parametrize(
    "text",
    [
        *("9^9^9^9", "a / 0", "log(0)", "log(-a)", "sqrt(-1)", "(0 - 8) ^ 0.5", "exp(9999)", "1e308 * 10"),
        *("1" * CHARACTERS, "max", "max(a)", "log"),
    ],
)
def test_a_formula_without_a_value_says_so(text: str) -> None:
    with pytest.raises(Undefined):
        Formula(text, ["a"]).value({"a": 2.0})


def test_what_is_nested_deeply_ends_in_an_error_and_not_in_a_crash() -> None:
    with pytest.raises((FormulaError, Undefined)):
        Formula("-" * 999 + "a", ("a",)).value({"a": 1.0})
