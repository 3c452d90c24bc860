"""The share of the wanted keys that have a value of the right type in the completion's JSON code block."""

import json
import re

from gradebox import StringThread

BLOCK = re.compile(r"```json\n(.*?)```", re.DOTALL)
TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float), "array": (list,), "object": (dict,)}


async def grade(thread: StringThread) -> float:
    """The share, from 0.0 to 1.0."""
    found = BLOCK.search(thread.completion() or "")
    if found is None:
        return 0.0
    try:
        value = json.loads(found.group(1))
    except ValueError:
        return 0.0
    wanted = thread.metadata["shape"]
    right = [key for key, kind in wanted.items() if isinstance(value.get(key), TYPES[kind])]
    return len(right) / len(wanted)
