import pytest

from gradebox.schemas import Isolation, Report
from worker.environments.package_isolation import Settled, settle

LOADED = Report(valid=True, checks=[], isolation="completion", warnings=["other"])


def test_packages_that_may_run_text_are_named() -> None:
    settled = settle("auto", ["sympy", "regex", "mpmath", "numpy", "pandas", "nltk"])
    assert settled.isolation == "completion"
    other, warning = settled.warn(LOADED).warnings
    assert other == "other"
    assert "mpmath, nltk, pandas, and 1 more. If" in warning
    assert 'choose isolation "batch"' in warning


@pytest.mark.parametrize(
    ("isolation", "packages"),
    [
        ("auto", []),
        ("auto", ["regex", "rapidfuzz"]),
        ("auto", ["numpy", "scipy"]),
        ("batch", ["sympy"]),
        ("completion", ["sympy"]),
    ],
)
def test_what_was_chosen_and_known_packages_change_nothing(isolation: Isolation, packages: list[str]) -> None:
    assert settle(isolation, packages) == Settled(isolation, "")
    assert settle(isolation, packages).warn(LOADED) is LOADED


@pytest.mark.parametrize("told", [{"isolation": None, "valid": False}, {"asks": ["model:judge"]}])
def test_where_the_isolation_costs_little_nothing_is_said(told: dict[str, object]) -> None:
    report = LOADED.model_copy(update=told)
    assert settle("auto", ["sympy"]).warn(report) is report
