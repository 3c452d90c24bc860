"""Whether the grader that asked accepts a reply. The reply is a server's, the schema is a grader's, and the event loop
of all projects compares them: the work is bounded.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from gradebox.asks import read_reply
from gradebox.asks.model import choice_schema
from gradebox.asks.schema import checked, problem

_MOST_WORK = 1 << 19  # bytes of the schema times values of the reply: a tenth of a second at worst


def fits(text: str, schema: dict[str, Any] | None, sent: Sequence[str]) -> bool:
    """Return whether `Model.chat` or `Model.choose` accepts this reply to an ask with this schema and these messages.
    False if comparing them would take long, or if the reply repeats a part of an earlier one.
    """
    if schema is None:
        return True
    try:
        return _is_option(text, schema, sent) or _is_valid(read_reply.json_of(text, sent), schema)
    except (ValueError, TypeError, AttributeError, RecursionError):  # of a reply, or of a schema that is none
        return False


def _is_option(text: str, schema: dict[str, Any], sent: Sequence[str]) -> bool:
    """Whether the schema is that of a choice, and the reply names one of its options."""
    properties = schema.get("properties")
    option = properties.get("option") if isinstance(properties, dict) else None
    options = option.get("enum") if isinstance(option, dict) else None
    if not isinstance(options, list) or not all(isinstance(each, str) for each in options):
        return False
    is_choice = any(schema == choice_schema(options, reasoning) for reasoning in (True, False))
    return is_choice and read_reply.option_of(text, options, sent) is not None


def _is_valid(value: Any, schema: dict[str, Any]) -> bool:
    if _has_more_values(value, _MOST_WORK // len(msgspec.json.encode(schema))):
        return False
    checked(schema)
    return problem(value, schema) is None


def _has_more_values(value: Any, most: int) -> bool:
    """Whether there are more values in this one than `most`."""
    left = [value]
    while left and most >= 0:
        most -= 1
        each = left.pop()
        if isinstance(each, dict | list):
            left.extend(each.values() if isinstance(each, dict) else each)
    return most < 0
