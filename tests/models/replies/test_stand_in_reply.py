"""Tests that the smallest reply conforms to its schema, by the grader's check."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebox.asks.schema import checked, problem
from models.replies.stand_in_reply import smallest


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["b", "a"]}, "b"),
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 3}, "xxx"),
        ({"type": "integer"}, 0),
        ({"type": "number", "minimum": 1, "maximum": 5}, 1),
        ({"type": "number", "maximum": -2}, -2),
        ({"type": "number", "minimum": 0.5}, 0.5),
        ({"type": "integer", "minimum": 0.5}, 1),
        ({"type": ["integer", "null"], "maximum": -0.5}, -1),
        ({"type": "boolean"}, False),
        ({"type": ["null", "string"]}, None),
        ({"const": 7}, 7),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ({"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}, "required": ["b"]}, {"b": 0}),
    ],
)
def test_the_smallest_value(schema: dict[str, Any], value: Any) -> None:
    checked(schema)
    assert smallest(schema) == value
    assert problem(value, schema) is None


_leaves: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 3}, {"enum": ["x", 1]}, {"type": "boolean"}, {"type": "null"}]
)
_schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, inner, st.integers(0, 3)),
        st.builds(
            lambda members: {"type": "object", "properties": members, "required": sorted(members)},
            st.dictionaries(st.sampled_from("abc"), inner),
        ),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(_schemas)
def test_it_fits_any_schema(schema: dict[str, Any]) -> None:
    checked(schema)
    assert problem(smallest(schema), schema) is None


def test_lists_of_lists_of_lists_are_not_made_to_their_end() -> None:
    schema: dict[str, Any] = {"type": "string", "minLength": 1000}
    for _ in range(20):
        schema = {"type": "array", "items": schema, "minItems": 1000}
    began = process_time()
    smallest(schema)
    smallest({"required": [str(n) for n in range(20_000)], "properties": {str(n): schema for n in range(20_000)}})
    assert process_time() - began < 2


def test_what_is_no_schema_has_one_all_the_same() -> None:
    schemas: list[dict[str, Any]] = [{"type": 7}, {"enum": "x"}, {"properties": 3}, {"type": []}]
    for schema in (*schemas, {"type": "array", "minItems": 10**9}):
        smallest(schema)
