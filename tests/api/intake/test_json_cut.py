"""Tests that parts of JSON texts are cut out unchanged, in time proportional to their length."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.intake import json_cut
from api.intake.json_cut import FEW, TooManyError, TwiceError, elements, members
from sandbox.limits import MAX_LINE_DEPTH

LONGEST = 4 * 1024 * 1024
PIECES = [r"\ud83d", r"\uDE00", r"\ud83d\ude00", r"\ue000", r"\uE83d", "\\\\", "x", "\\\\ud83d", "é", r"\"", "[", "},{"]
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n "])
STRINGS = st.lists(st.sampled_from(PIECES)).map(lambda pieces: f'"{"".join(pieces)}"')
VALUES = st.recursive(
    STRINGS | st.sampled_from(["1", "-2.5e3", "true", "null", "[]", "{}", "[ ]"]),
    lambda inner: (
        st.tuples(BLANKS, inner, BLANKS, inner).map(lambda parts: f"[{parts[0]}{parts[1]}{parts[2]},{parts[3]}]")
        | st.tuples(STRINGS, BLANKS, inner).map(lambda parts: f"{{{parts[0]}:{parts[1]}{parts[2]}}}")
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(BLANKS, VALUES, BLANKS)))
def test_elements_come_byte_for_byte_and_are_counted_as_they_are_read(parts: list[tuple[str, str, str]]) -> None:
    array = f"[{','.join(map(''.join, parts))}]".encode()
    assert elements(array, 1000, LONGEST) == [value.encode() for _, value, _ in parts]
    if parts:
        json_cut._count(array, len(parts), LONGEST)
        with pytest.raises(TooManyError):
            json_cut._count(array, len(parts) - 1, LONGEST)


@given(st.lists(st.tuples(BLANKS, VALUES, BLANKS)))
def test_members_come_byte_for_byte(parts: list[tuple[str, str, str]]) -> None:
    named = [f'{before}"n{number}"{after}:{before}{value}' for number, (before, value, after) in enumerate(parts)]
    text = f" {{{','.join(named)}}}".encode()
    assert members(text) == {f"n{number}": value.encode() for number, (_, value, _) in enumerate(parts)}


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'{"a":12,"a":1}', rb'{"a":"\ud800","\u0061":"\ud800"}'])
def test_a_member_that_is_there_twice_is_refused(text: bytes) -> None:
    with pytest.raises(TwiceError):
        members(text)


@pytest.mark.parametrize("text", [b"1", b'{"a":1}', b'"x"', rb'"\ud800"'])
def test_what_is_no_array_has_no_elements(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        elements(text, 10, LONGEST)


@pytest.mark.parametrize("element", [b"1", b"[]", b'""', b'{"a":[1,2]}', b"[" * MAX_LINE_DEPTH + b"]" * MAX_LINE_DEPTH])
def test_too_many_are_counted_before_they_are_held(element: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    array = b"[" + (element + b",") * (FEW + 1) + element + b"]" if len(element) < 20 else b""
    array = array or b"[" + (element + b",") * 1001 + b"1" + b",1" * FEW + b"]"
    monkeypatch.setattr(msgspec.json, "decode", None)
    with pytest.raises(TooManyError):
        elements(array, 1000, LONGEST)


def test_many_small_parts_inside_of_few_elements_are_taken() -> None:
    inner = b"[" + b"1," * FEW + b"1]"
    assert elements(b"[" + inner + b"," + inner + b"]", 2, LONGEST) == [inner, inner]


def test_half_pairs_take_time_by_their_length_alone() -> None:
    """Each half pair has another spelling. A search for every spelling would take minutes."""
    digits = "0123456789abcdefABCDEF"
    spelled = [rf"\u{d}{a}{b}{c}" for d in "dD" for a in "89abcdefABCDEF" for b in digits for c in digits]
    text = "".join(spelled) + r"\ue000" * 2_500_000
    body = f'{{"threads":["{text}"]}}'.encode()
    began = time.process_time()
    (thread,) = elements(members(body)["threads"], 1, len(body))
    assert time.process_time() - began < 2
    assert thread == f'"{text}"'.encode()
