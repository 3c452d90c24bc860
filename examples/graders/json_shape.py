"""The share of required keys of a JSON object that have a value of the right type.

Metadata: `required`, an object of keys and types, such as `{"name": "string", "age": "number"}`.
"""

import json

from gradebox import Score, StringThread

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
MAX_TRIES = 20  # bounds the time for a text of many braces


def first_object(text: str) -> dict[str, object] | None:
    """The first JSON object in the text, with any text around it."""
    start = -1
    for _ in range(MAX_TRIES):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def has_type(value: object, name: str) -> bool:
    """Whether a JSON value has this JSON type."""
    if isinstance(value, bool) and name != "boolean":
        return False  # in Python, True is an int
    return isinstance(value, TYPES[name])


async def grade(thread: StringThread) -> float:
    """From 0.0 to 1.0; the reason lists keys that are missing or have the wrong type."""
    required: dict[str, str] = thread.metadata["required"]
    found = first_object(thread.completion() or "")
    if found is None:
        return Score(0.0, reason="there is no JSON object in the completion")
    problems = [f"{key} is missing" for key in required if key not in found]
    problems += [
        f"{key} is no {name}" for key, name in required.items() if key in found and not has_type(found[key], name)
    ]
    return Score(1 - len(problems) / len(required), reason="; ".join(problems) or "all keys are there")
