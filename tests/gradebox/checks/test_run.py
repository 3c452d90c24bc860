"""Tests that several checks make one score, with each result in its details."""

import asyncio
import json
from typing import Any

import pytest

from gradebox import Score, StringThread
from gradebox.checks import Checks, contains, equals, max_tokens, max_words, run_all, satisfies
from gradebox.score import DETAILS_BYTES
from tests.processes import printed

THREAD = StringThread([("user", "q"), ("assistant", "it is 4")])


def half(thread: StringThread) -> Score:
    return Score(0.5)


def no_reason(thread: StringThread) -> bool:
    return False


async def later(thread: StringThread) -> float:
    return 1.0


def details(score: Score) -> dict[str, Any]:
    assert score.details is not None
    return score.details


def test_all_are_run_in_order_and_summed_up() -> None:
    score = run_all([contains("5"), contains("4"), max_words(2), no_reason], THREAD)
    assert score == 0.0
    counts = {"passed": False, "total_checks": 4, "passed_count": 1, "failed_count": 3}
    totals = {"total_steps": 1, "total_tokens": None, "total_duration_ms": None}
    found = [
        ("contains(text='5')", False, "expected '5' in the completion, found 'it is 4'"),
        ("contains(text='4')", True, None),
        ("max_words(n=2)", False, "expected at most 2 words, found 3"),
        ("no_reason", False, "it gave 0, and no reason"),
    ]
    checks = [{"check": check, "passed": passed, "reason": reason} for check, passed, reason in found]
    assert details(score) == {"summary": counts | totals, "checks": checks}
    assert str(score.reason).startswith("contains(text='5'): expected '5' in the completion")


def test_all_pass() -> None:
    metadata = {"trajectory": {"total_tokens": 12, "total_duration_ms": 3.5}}
    score = run_all([contains("4"), max_tokens(12)], StringThread([("assistant", "4")], metadata))
    assert (score, score.reason) == (1.0, None)
    summary = details(score)["summary"]
    assert (summary["passed"], summary["passed_count"], summary["failed_count"]) == (True, 2, 0)
    assert (summary["total_steps"], summary["total_tokens"], summary["total_duration_ms"]) == (1, 12, 3.5)


def test_what_the_thread_does_not_say_is_no_zero() -> None:
    def passes(thread: StringThread) -> bool:
        return True

    summary = details(run_all([passes], StringThread([("user", "q")])))["summary"]
    assert (summary["total_steps"], summary["total_tokens"], summary["total_duration_ms"]) == (None, None, None)


def test_checks_of_the_completion_do_without_tool_calls() -> None:
    thread = StringThread([("assistant", "I look."), ("tool", "4"), ("assistant", "It is 4.")])
    score = run_all([contains("4")], thread)
    assert (score, details(score)["summary"]["total_steps"]) == (1.0, 2)


def test_what_a_check_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_all([contains("5"), satisfies(lambda _: 1 / 0)], THREAD)


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ([], "there is no check"),
        *(([odd], "a check gives 1 or 0") for odd in (half, lambda _: None, lambda _: "yes")),
        ([later], "at once, and later returned a coroutine"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_gives_neither_one_nor_zero_is_an_error(checks: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run_all(checks, THREAD)


@pytest.mark.parametrize("text", ["x", "\x00", "\U0001f600", "\ud800", '"'])
def test_details_always_have_room(text: str) -> None:
    def fails(thread: StringThread) -> Score:
        return Score.failed(text * 5_000)

    score = run_all([fails, equals(text * 400)] * 25, StringThread([("assistant", "a" * 10_000)]))
    assert len(json.dumps(score.details, ensure_ascii=False).encode()) <= DETAILS_BYTES
    assert len(details(score)["checks"]) == 50
    assert len(str(score.reason).encode()) <= 4096


def test_there_is_a_bound_on_their_number() -> None:
    with pytest.raises(ValueError, match="at most 50"):
        run_all([contains("4")] * 51, THREAD)
    with pytest.raises(ValueError, match="1 to 50"):
        Checks([contains("4")] * 51)


def test_checks_are_made_of_json_too() -> None:
    checks = Checks([{"check": "contains", "text": "4"}, contains("it"), {"check": "equals", "value": None}])
    score = asyncio.run(checks(THREAD))
    assert [one["passed"] for one in details(score)["checks"]] == [True, True, False]


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([], "1 to 50"),
        ("contains", "1 to 50"),
        ({"check": "contains"}, "1 to 50"),
        ([3], r"checks\[0\] is no check"),
        ([{"check": "contain", "text": "x"}], r"checks\[0\] is 'contain': there are contains, not_contains"),
        ([{"text": "x"}], r"checks\[0\] is None"),
        ([{"check": ["contains"]}], "there are contains"),
        ([{"check": "satisfies", "fn": "print"}], "is 'satisfies'"),
        ([contains("a"), {"check": "contains"}], r"checks\[1\]: .*missing 1 required"),
        ([{"check": "contains", "text": "a", "case": 1}], "unexpected keyword argument 'case'"),
        ([{"check": "matches", "pattern": "("}], r"checks\[0\]: .*regular expression"),
    ],
)
def test_what_is_no_check_is_named(checks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Checks(checks)


def test_it_is_cheap_to_import() -> None:
    """Imports no modules of the standard library that would slow down a cold sandbox."""
    loaded = "import gradebox; before = set(sys.modules); import gradebox.checks; print(*set(sys.modules) - before)"
    assert {"json", "re", "inspect", "typing_extensions"}.isdisjoint(printed(loaded).split())
