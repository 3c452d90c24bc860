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
        ({"type": {}}, "the type {}"),
        ({"properties": []}, "`properties` of the schema is an object, and not []"),
        ({"required": "answer"}, "`required` of the schema is a list, and not 'answer'"),
        ({"required": [5]}, "a list of names"),
        ({"properties": {"a": {"enum": "yes"}}}, "`enum` of the schema is a list"),
        ({"minLength": "3"}, "`minLength` of the schema is a number"),
        ({"minItems": True}, "`minItems` of the schema is a number"),
        ({"type": []}, "`type` of the schema is empty"),
        ({"items": {"enum": []}}, "`enum` of the schema is empty"),
        ({"anyOf": ()}, "`anyOf` of the schema is empty"),
    ],
)
def test_a_keyword_that_is_not_checked_is_refused(schema: Any, told: str) -> None:
    with pytest.raises(ValueError, match="schema") as found:
        checked(schema)
    assert told in str(found.value)


def test_true_is_not_one() -> None:
    assert problem(True, {"enum": [1, 2]}) is not None
    assert problem(1, {"const": True}) is not None
    assert problem([True], {"const": [1]}) is not None


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (5.0, {"type": "integer"}),
        (1e22, {"type": ["null", "integer"], "minimum": 1}),
        (10**400, {"type": "integer"}),
        (1.0, {"const": 1}),
        (1, {"enum": [0.0, 1.0]}),
        ({"a": [1.0]}, {"const": {"a": [1]}}),
    ],
)
def test_a_number_without_a_fraction_is_an_integer(value: Any, schema: dict[str, Any]) -> None:
    """As JSON Schema says. A completion with 5.0 for an integer scored 0.0."""
    assert problem(value, schema) is None


@pytest.mark.parametrize("value", [5.5, float("inf"), -float("inf"), True])
def test_what_is_no_integer(value: Any) -> None:
    assert problem(value, {"type": "integer"}) == "the value must be of type integer"
