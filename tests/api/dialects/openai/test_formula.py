import pytest

from api.dialects.openai.formula import OpenAIFormula, Undefined
from api.dialects.openai.refused import OpenAIProblem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", 2.0),
        ("2 * a ^ 3", 16.0),
        ("-a ^ 2", -4.0),
        ("a ^ b ^ 2", 2.0**9),
        ("(a + b) / 2", 2.5),
        ("max(a, b) - min(a, b, 1)", 2.0),
        ("abs(-a) + floor(2.7) + ceil(2.1)", 7.0),
        ("exp(0) + sqrt(16) + log(1)", 5.0),
        ("\n a +\n b ", 5.0),
    ],
)
def test_arithmetic(text: str, value: float) -> None:
    assert OpenAIFormula(text, ("a", "b")).value({"a": 2.0, "b": 3.0}) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "a; b",
        "c",
        "a.real",
        "__import__(1)",
        "eval(a)",
        "a if a else b",
        "a and b",
        "not a",
        "a // b",
        "a % b",
        "a == b",
        "'a' * 9",
        "[a]",
        "{a}",
        "(x for x in a)",
        "(a, b)",
        "max(a, key)",
        "max(*a)",
        "min(a, default = 1)",
        "lambda: a",
        "(lambda a: a)(1)",
        "1j",
        "None",
        "True",
        "...",
        "a := 1",
        "await a",
        "(" * 400 + "a" + ")" * 400,
        "+".join(["a"] * 600),
        "ａ",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(OpenAIProblem):
        OpenAIFormula(text, ("a", "b"))


@pytest.mark.parametrize(
    "text",
    ["9^9^9^9", "a / 0", "log(0)", "sqrt(-1)", "(0 - 8) ^ 0.5", "exp(9999)", "1e308 * 10", "max", "max(a)", "log"],
)
def test_formulas_without_a_value(text: str) -> None:
    with pytest.raises(Undefined):
        OpenAIFormula(text, ("a",)).value({"a": 2.0})


def test_what_is_nested_deeply_ends_in_an_error_and_not_in_a_crash() -> None:
    with pytest.raises((OpenAIProblem, Undefined)):
        OpenAIFormula("-" * 999 + "a", ("a",)).value({"a": 1.0})
