"""Tests that scores are read without calls of the grader's code."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebox.asks.errors import ModelError
from gradebox.score import NotApplicable, Score
from sandbox.guest.child.encode_outcome import (
    BadReturn,
    read_exception,
    read_reason,
    read_return,
    read_score,
    read_values,
)
from sandbox.guest.protocol.fields import CAUSE, DETAILS, MESSAGE, REASON, TRACE, VALUES, unpack_values
from sandbox.guest.protocol.records import BAD_RETURN, EXCEPTION, MEMORY, MODEL, NOT_APPLICABLE

RAN: list[str] = []


def _trap(name: str) -> Callable[..., Any]:
    def run(*_: object, **__: object) -> object:
        RAN.append(name)
        raise AssertionError(f"{name} ran")

    return run


_METHODS = (
    "__float__", "__int__", "__index__", "__bool__", "__eq__", "__lt__", "__gt__", "__le__", "__ge__", "__hash__",
    "__repr__", "__str__", "__format__", "__len__", "__neg__", "__abs__", "__trunc__", "__getattribute__",
)  # fmt: skip


class LyingType(type):
    __instancecheck__ = __subclasscheck__ = __getattribute__ = _trap("the metaclass")
    __eq__ = __hash__ = __repr__ = _trap("the metaclass")


def _hostile(base: Any, metaclass: type[type]) -> type:
    traps = {name: _trap(name) for name in _METHODS}
    body = {**traps, "__class__": property(_trap("__class__"))}
    return type.__new__(metaclass, "Hostile", (base,), body)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**1000), 2**1000) | st.booleans())
def test_finite_numbers(value: float) -> None:
    score = read_score(value)
    assert type(score) is float
    assert score == float(value)
    assert math.copysign(1, score) == math.copysign(1, value)


@pytest.mark.parametrize("metaclass", [type, LyingType])
@pytest.mark.parametrize(("base", "score"), [(float, 0.25), (int, 3)])
def test_a_subclass_of_a_number_runs_nothing_of_its_own(base: Any, score: float, metaclass: type[type]) -> None:
    value = base.__new__(_hostile(base, metaclass), score)
    RAN.clear()
    assert read_score(value) == score
    assert RAN == []


@pytest.mark.parametrize("metaclass", [type, LyingType])
@pytest.mark.parametrize("base", [object, str, list, dict])
def test_what_is_no_number_runs_nothing_either(base: Any, metaclass: type[type]) -> None:
    value = base.__new__(_hostile(base, metaclass))
    RAN.clear()
    with pytest.raises(BadReturn, match="an object of type `Hostile`"):
        read_score(value)
    assert RAN == []


def test_the_name_of_a_type_is_not_the_metaclass_s_to_say() -> None:
    class Named(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]  # forged
            raise KeyError

    class Value(metaclass=Named):
        pass

    with pytest.raises(BadReturn, match="an object of type `Value`"):
        read_score(Value())


async def _coroutine() -> float:
    return 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "returned None: is a `return` missing"),
        ("1.0", "returned a string: convert it"),
        (math.nan, "returned nan, and a score must be finite"),
        (math.inf, "returned inf"),
        (Score(-math.inf), "returned -inf"),
        (10**400, "too large for a float"),
        (Fraction(1, 2), "an object of type `Fraction`"),
        (1j, "an object of type `complex`"),
        ([1.0], "an object of type `list`"),
        ((1.0, "why"), "returned a `tuple`, and a score is an int or a float: `return float(...)`, or with a reason"),
        ({"score": 1.0}, "returned a `dict`"),
        (type("bool", (), {})(), "returned a `bool` that is not Python's own"),
        (type("x" * 500, (), {})(), "x" * 100 + "`"),
    ],
)
def test_what_is_no_finite_number(value: object, message: str) -> None:
    with pytest.raises(BadReturn) as raised:
        read_score(value)
    assert message in str(raised.value)


def test_a_missing_await_is_named() -> None:
    coroutine = _coroutine()
    with pytest.raises(BadReturn, match="an `await` is missing"):
        read_score(coroutine)
    coroutine.close()


class Mine(Score):
    """A grader's own kind of score."""

    def __getattribute__(self, name: str) -> Any:
        return _trap(name)()


class Text(str):
    __str__ = __getitem__ = encode = __len__ = _trap("a text")


def test_a_reason_is_read_of_a_score_alone() -> None:
    assert read_reason(Score(1.0, reason="because"), 100) == [(REASON, b"because")]
    assert read_reason(Score(1.0, reason="é" * 100), 20) == [(REASON, ("é" * 8 + "…").encode())]
    assert read_reason(Score(1.0), 100) == []
    assert read_reason(1.0, 100) == read_reason(True, 100) == read_reason(None, 100) == []


def test_a_subclass_of_score_keeps_all_of_its_parts() -> None:
    """They were lost without a word."""
    score = Mine(0.5, "because", {"a": 1.0}, {"b": [2]})
    found, fields = read_return(score, 100, 100)
    assert (found, dict(fields)[REASON], dict(fields)[DETAILS]) == (0.5, b"because", b'{"b":[2]}')
    assert unpack_values(dict(fields)[VALUES]) == {"a": 1.0}
    assert RAN == []


def test_a_reason_may_be_text_of_a_subclass_of_str() -> None:
    """As that of an Enum, or of NumPy. It was lost without a word."""
    assert read_reason(Score(1.0, reason=Text("because")), 100) == [(REASON, b"because")]
    assert read_exception(NotApplicable(Text("because")), "", 100) == (NOT_APPLICABLE, [(MESSAGE, b"because")])
    assert RAN == []
    kind, fields = read_exception(ModelError("refused", numpy.str_("because")), "", 100)
    assert (kind, dict(fields)[MESSAGE]) == (MODEL, b"because")


@pytest.mark.parametrize("reason", [5, 0, b"because", ["because"], ValueError("because")])
def test_in_place_of_a_reason_that_is_no_text_is_its_type(reason: Any) -> None:
    """It was lost without a word. The score is right, so it counts."""
    said = f"(the reason is of type `{type(reason).__name__}`, which is no text: write str() around it)".encode()
    assert read_return(Score(1.0, reason=reason), 100, 100) == (1.0, [(REASON, said)])
    assert read_exception(NotApplicable(reason), "", 100) == (NOT_APPLICABLE, [(MESSAGE, said)])
    assert read_exception(NotApplicable(None), "", 100) == (NOT_APPLICABLE, [(MESSAGE, b"")])  # type: ignore[arg-type]


class Hides(Score):
    reason = "mine"  # an attribute of the class instead of the slot


@pytest.mark.parametrize("score", [Hides(1.0, "because"), float.__new__(Hides, 1.0)])
def test_a_score_whose_reason_cannot_be_read_is_a_bad_return(score: Score) -> None:
    with pytest.raises(BadReturn, match="the reason of the `Hides` that `grade` returned cannot be read: make it by"):
        read_return(score, 100, 100)


_HALVES = "x\ud83d", "\udc00\ud800y", "\\\ud83d\\", "wähl 😀"


@pytest.mark.parametrize("text", _HALVES)
def test_halves_of_surrogate_pairs_are_written_alike_in_reasons_and_details(text: str) -> None:
    """A completion cut in the middle of an emoji has one. It made a `bad_return` of a score with details."""
    details = {"a": text, text: [{"b": text}]}
    fields = dict(read_return(Score(1.0, reason=text, details=details), 1000, 1000)[1])
    shown = fields[REASON].decode()
    assert json.loads(fields[DETAILS].decode()) == {"a": shown, shown: [{"b": shown}]}
    assert dict(read_exception(NotApplicable("", details), "", 1000)[1])[DETAILS] == fields[DETAILS]


def test_details_with_halves_of_surrogate_pairs_may_not_be_longer_than_others() -> None:
    with pytest.raises(BadReturn, match="take 50 bytes as JSON, and may take 49"):
        read_return(Score(1.0, details={"a": "\ud800" * 6}), 100, 49)


def test_details_that_a_reader_might_not_decode_are_a_bad_return() -> None:
    """They come from completions. One of them made clients fail that read the batch, and had no score elsewhere."""
    deep: dict[str, Any] = json.loads('{"a":' * 199 + "[0]" + "}" * 199)
    data = dict(read_return(Score(1.0, details=deep), 100, 10_000)[1])[DETAILS]
    assert json.loads(data) == deep
    with pytest.raises(BadReturn, match="nested more than 200 levels deep"):
        read_return(Score(1.0, details={"a": (deep,)}), 100, 10_000)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("no"), EXCEPTION, b"ValueError: no"),
        (MemoryError(), MEMORY, b"MemoryError: use less memory, or raise `memory_mb` of the grader."),
        (SystemExit(1), EXCEPTION, b"SystemExit: 1"),
        (BadReturn("why"), BAD_RETURN, b"why"),
    ],
)
def test_what_grade_raised(error: BaseException, kind: int, message: bytes) -> None:
    found, fields = read_exception(error, "", 100)
    assert (found, dict(fields)[MESSAGE]) == (kind, message)


def _in_groups(*errors: Exception) -> Exception:
    return ExceptionGroup("a TaskGroup", [ExceptionGroup("inside", list(errors))])


def test_a_group_of_nothing_but_what_does_not_apply_does_not_apply() -> None:
    """As `asyncio.TaskGroup` raises it. It was an `exception` without the reason."""
    error = _in_groups(NotApplicable("no documents", {"n": 0}), NotApplicable("no labels"))
    expected = NOT_APPLICABLE, [(MESSAGE, b"no documents"), (DETAILS, b'{"n":0}')]
    assert read_exception(error, "", 100) == expected
    assert read_exception(NotApplicable("no documents", {"n": 0}), "", 100) == expected


def test_a_group_of_failed_asks_is_one() -> None:
    error = _in_groups(ModelError("unreachable", "away", True), ModelError("refused", "no"))
    kind, fields = read_exception(error, "", 100)
    assert (kind, dict(fields)[MESSAGE], dict(fields)[CAUSE]) == (MODEL, b"no", b"\x00refused")


@pytest.mark.parametrize("other", [ValueError("no"), ModelError("refused", "no")])
def test_a_group_of_different_exceptions_shows_them(other: Exception) -> None:
    kind, fields = read_exception(_in_groups(NotApplicable("no documents"), other), "", 1000)
    message = dict(fields)[MESSAGE].decode()
    assert kind == EXCEPTION
    assert message.endswith(f"(1 sub-exception): NotApplicable: no documents; {type(other).__name__}: {other}")


def test_a_long_message_is_cut_and_the_line_is_told() -> None:
    try:
        exec(compile("\nraise ValueError('a' * 10_000)", "grader.py", "exec"))
    except ValueError as error:
        kind, fields = read_exception(error, "", 50)
        whole = dict(read_exception(error, "", 100_000)[1])
    assert kind == EXCEPTION
    assert all(len(value) <= 50 for _, value in fields)
    assert whole[MESSAGE].endswith(b" (line 2)")
    assert b'File "grader.py", line 2' in whole[TRACE]


def test_values_are_read_of_a_score_alone() -> None:
    ((tag, data),) = read_values(Score(1.0, values={"format": True, "length": 0.5}))
    assert (tag, unpack_values(data)) == (VALUES, {"format": 1.0, "length": 0.5})
    assert read_values(Score(1.0)) == read_values(1.0) == []


@pytest.mark.parametrize("values", [{"a": math.nan}, {"a": "b"}, {1: 1.0}, {"": 1.0}, [1.0], {"a" * 65: 1.0}])
def test_values_that_were_changed_to_none_are_a_bad_return(values: Any) -> None:
    score = Score(1.0, values={"a": 1.0})
    score.values = values
    with pytest.raises(BadReturn, match="changed the values"):
        read_values(score)


def test_the_cause_of_an_exception_follows_its_line() -> None:
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e"
    with pytest.raises(ValueError, match="x") as raised:
        exec(compile(source, "grader.py", "exec"))
    fields = dict(read_exception(raised.value, source, 4096)[1])
    assert fields[MESSAGE] == b"ValueError: x (line 4), caused by ZeroDivisionError: division by zero (line 2)"
    assert b"direct cause of the following exception" in fields[TRACE]
    assert len(dict(read_exception(raised.value, source, 100)[1])[TRACE]) <= 100
