"""Tests of the requirements that are accepted."""

import pytest

from worker.environments.requirements import MOST, RequirementRefused, read


def test_names_with_versions_and_extras_have_one_form() -> None:
    asked = ["SymPy == 1.14", "math_verify[antlr4_13_2, x]>=0.8,<1", "numpy", "sympy==1.14"]
    assert read(asked) == ["math-verify[antlr4_13_2,x]<1,>=0.8", "numpy", "sympy==1.14"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("a @ https://example.org/a.whl", "URL"),
        ("a @ file:///etc/passwd", "URL"),
        ("git+https://example.org/a", "no requirement"),
        ("https://example.org/a.whl", "no requirement"),
        ("./a", "no requirement"),
        ("/a/b.whl", "no requirement"),
        ("-e .", "no requirement"),
        ("--index-url https://example.org", "no requirement"),
        ("-r other.txt", "no requirement"),
        ("a\n--find-links /", "no requirement"),
        ("a==1 --hash=sha256:00", "no requirement"),
        ('a; python_version > "3"', "marker"),
        ("a===1", "==="),
        ("", "no requirement"),
        ("a" * 300, "characters"),
    ],
)
def test_nothing_else_is(asked: str, why: str) -> None:
    with pytest.raises(RequirementRefused, match=why):
        read([asked])


def test_not_too_many() -> None:
    assert read([]) == []  # there may be data
    with pytest.raises(RequirementRefused, match=str(MOST)):
        read([f"a{number}" for number in range(MOST + 1)])
