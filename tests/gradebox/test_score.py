"""Tests of scores: floats with a reason and values."""

import json
import math
import pickle
from typing import Any

import numpy
import pytest

from gradebox import Score


def test_a_score_is_a_float_with_a_reason_and_values() -> None:
    score = Score(0.5, reason="no unit", values={"format": 1, "length": 0.3})
    assert score == 0.5
    assert (score.reason, score.values) == ("no unit", {"format": 1.0, "length": 0.3})
    copied = pickle.loads(pickle.dumps(score))
    assert (copied, copied.reason, copied.values) == (score, score.reason, score.values)
    assert Score(1.0).values is None


def test_a_score_is_shown_with_its_reason_and_printed_as_a_float() -> None:
    score = Score(0.5, reason="no unit", values={"format": 1})
    assert repr(score) == "Score(0.5, reason='no unit', values={'format': 1.0})"
    assert (str(score), f"{score:.2f}", json.dumps([score])) == ("0.5", "0.50", "[0.5]")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({str(number): 1.0 for number in range(17)}, "at most 16 names"),
        ([1.0], "takes a dict"),
        ({"": 1.0}, "no name"),
        ({"a" * 65: 1.0}, "1 to 64 characters"),
        ({"a\n": 1.0}, "printable"),
        ({"\ud800": 1.0}, "printable"),
        ({1: 1.0}, "no name"),
        ({"a": math.nan}, "finite"),
        ({"a": "1"}, "finite"),
        ({"a": numpy.float32(0.25)}, "'a' is .*0.25.*, and a value is a finite int or float of Python"),
        ({"a": 10**400}, "finite"),
    ],
)
def test_what_is_no_value_is_refused(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Score(1.0, values=values)


def test_passed_and_failed_are_one_and_zero_with_a_reason() -> None:
    passed, failed = Score.passed(), Score.failed("no unit")
    assert (passed, passed.reason, failed, failed.reason) == (1.0, None, 0.0, "no unit")
    assert Score.passed("all there").reason == "all there"
    assert (type(passed), type(failed)) == (Score, Score)


@pytest.mark.parametrize("reason", ["", " \n", None, 3])
def test_a_failure_says_why(reason: Any) -> None:
    with pytest.raises(ValueError, match="says why"):
        Score.failed(reason)
