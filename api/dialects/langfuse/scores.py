"""Validates an evaluator's scores as Langfuse does. If Langfuse rejects one, the others are lost too."""

from typing import Any, Literal

import msgspec

TEXT_CHARACTERS = 500
_BOOLEANS = ("0", "1", "true", "false")


class InvalidScore(Exception):
    """Langfuse would reject a score. The message identifies the score and the fix."""


class WireScore(msgspec.Struct, omit_defaults=True):
    """One score on the wire."""

    name: str
    value: bool | int | float | str
    dataType: Literal["NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT"] | None = None  # noqa: N815  # as on the wire
    comment: str | None = None
    configId: str | None = None  # noqa: N815
    metadata: dict[str, Any] | None = None


def check(scores: object) -> list[WireScore]:
    """Returns the scores if Langfuse accepts all of them. Raises InvalidScore."""
    if not isinstance(scores, list) or not scores:
        raise InvalidScore("there is no score: return at least one")
    return [_checked(score, number) for number, score in enumerate(scores)]


def _checked(item: object, number: int) -> WireScore:
    if isinstance(item, dict) and "value" not in item:
        raise InvalidScore(f"scores[{number}] has no value, or None: leave the score out, or raise an error")
    try:
        score = msgspec.convert(item, WireScore)
    except msgspec.ValidationError as error:
        raise InvalidScore(f"scores[{number}] is invalid: {error}{_advice(str(error))}") from error
    if not score.name:
        raise InvalidScore(f"scores[{number}] has an empty name: name it")
    if said := _mismatch(score.value, score.dataType):
        raise InvalidScore(f"the value of score {score.name[:100]!r} is {score.value!r:.100}, and {said}")
    return score


def _advice(error: str) -> str:
    if error.endswith("`$.dataType`"):
        return ". data_type is NUMERIC, BOOLEAN, CATEGORICAL or TEXT"
    return ". The order is Score(value, name)" if error.endswith("`$.name`") else ""


def _mismatch(value: bool | float | str, data_type: str | None) -> str | None:
    """Returns the conflict between a value and its type; None if they match."""
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float) and not is_bool
    if data_type is None:
        return 'a score without a data type is a number or a text: give data_type="BOOLEAN"' if is_bool else None
    if data_type == "NUMERIC":
        return None if is_number else "NUMERIC is a number"
    if data_type == "BOOLEAN":
        return None if str(value).lower() in _BOOLEANS or value in (0, 1) else "BOOLEAN is true, false, 0 or 1"
    if not isinstance(value, str):
        return f"{data_type} is a text"
    if data_type == "TEXT" and not 0 < len(value.encode("utf-16-le")) // 2 <= TEXT_CHARACTERS:
        return f"TEXT has 1 to {TEXT_CHARACTERS} characters: shorten it, or put it into the comment"
    return None
