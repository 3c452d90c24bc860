"""Tests of the packages that may be asked for."""

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
        ("git+https://example.org/a", "no package"),
        ("https://example.org/a.whl", "no package"),
        ("./a", "no package"),
        ("/a/b.whl", "no package"),
        ("-e .", "no package"),
        ("--index-url https://example.org", "no package"),
        ("-r other.txt", "no package"),
        ("a\n--find-links /", "no package"),
        ("a==1 --hash=sha256:00", "no package"),
        ('a; python_version > "3"', "marker"),
        ("a===1", "==="),
        ("", "no package"),
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
