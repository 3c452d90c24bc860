"""Tests of values that fit a schema or have problems."""

from typing import Any

import pytest

from gradebox.asks.schema import checked, problem

VERDICT = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        "why": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("value", [{"score": 5}, {"score": 1, "tags": ["a", "bcd"], "why": None}])
def test_what_fits_has_no_problem(value: Any) -> None:
    checked(VERDICT)
    assert problem(value, VERDICT) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "must be of type object"),
        ({}, '"score" is missing'),
        ({"score": True}, '"score" must be of type integer'),
        ({"score": "5"}, '"score" must be of type integer'),
        ({"score": 6}, '"score" must be at most 5'),
        ({"score": 1, "tags": ["abcd"]}, 'length of item 0 of "tags" must be at most 3'),
        ({"score": 1, "tags": ["a"] * 3}, "must be at most 2"),
        ({"score": 1, "why": 1}, "fits none of its forms"),
        ({"score": 1, "more": 1}, 'a member "more"'),
    ],
)
def test_what_does_not_fit_is_said(value: Any, told: str) -> None:
    assert told in (problem(value, VERDICT) or "")


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "#/x"}, "`$ref`"),
        ({"type": "float"}, "'float'"),
        ({"items": {"pattern": "x"}}, "`pattern`"),
        ([], "takes a JSON Schema"),
        ({"additionalProperties": {}}, "true or false"),
    ],
)
def test_a_keyword_that_is_not_checked_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(ValueError, match="schema") as found:
        checked(schema)
    assert told in str(found.value)


def test_true_is_not_one() -> None:
    assert problem(True, {"enum": [1, 2]}) is not None
    assert problem(1, {"const": True}) is not None
