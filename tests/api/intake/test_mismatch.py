"""Tests of the messages for values that do not match a type."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from api.http.problems import ProblemError
from api.intake import bodies
from api.intake.source_upload import Key, Options


class Part(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant"]


class Body(msgspec.Struct, rename="camel"):
    on_what: Literal["failures", "all"] | None = None
    parts: list[Part] | None = None
    by_name: dict[str, Part] = {}
    steps: Literal[1, 2] = 1
    ask: Literal["stand-in"] | None = None
    key: Key = "a"
    seconds: Annotated[float, msgspec.Meta(gt=0, le=120, description="for one")] = 1
    count: Annotated[int, msgspec.Meta(ge=1, le=50_000_000)] | None = None
    plain: Annotated[str, msgspec.Meta(pattern="^a$")] = "a"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"onWhat": "failure"}, "Invalid enum value 'failure': write one of 'all', 'failures' - at `$.onWhat`"),
        ({"parts": [{"role": "bot"}]}, "'bot': write one of 'assistant', 'user' - at `$.parts[0].role`"),
        ({"byName": {"a.b": {"role": "bot"}}}, "'bot': write one of 'assistant', 'user' - at `$.byName[...].role`"),
        ({"steps": 3}, "3: write one of 1, 2 - at `$.steps`"),
        ({"ask": "real"}, "Invalid enum value 'real': write 'stand-in' - at `$.ask`"),
        ({"key": "Is Short!"}, "Expected 1 to 64 of a-z 0-9 . _ - with a letter or digit first - at `$.key`"),
        ({"plain": "b"}, "Expected `str` matching regex '^a$' - at `$.plain`"),
        ({"seconds": 500}, "seconds is 500, and must be at most 120 (for one)"),
        ({"count": 50_000_001}, "count is 50000001, and must be at most 50000000"),
        ({"seconds": -1}, "seconds is -1, and must be more than 0 (for one)"),
        ({"count": 0}, "count is 0, and must be at least 1"),
        ({"parts": [{"name": 1}]}, "Object contains unknown field `name`: it may have role - at `$.parts[0]`"),
        ({"steps": "x"}, "Expected `int`, got `str` - at `$.steps`"),
    ],
)
def test_the_values_of_an_enumeration_and_the_words_for_a_pattern(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ProblemError) as refused:
        bodies.decode(msgspec.json.encode(fields), Body)
    assert refused.value.detail.startswith("the body is invalid: ")
    assert refused.value.detail.endswith(said)


def test_fields_of_a_form_too() -> None:
    with pytest.raises(ProblemError) as refused:
        bodies.convert({"role": "bot"}, Part)
    said = "the fields are invalid: Invalid enum value 'bot': write one of 'assistant', 'user' - at `$.role`"
    assert refused.value.detail == said


def test_a_field_of_a_form_out_of_its_range() -> None:
    with pytest.raises(
        ProblemError, match=r"timeout_s is 500, and must be at most 120 \(seconds for one completion; no"
    ):
        bodies.convert({"timeout_s": "500"}, Options)
