"""The JSON forms of a group: `{"threads": […]}`, or `{"prompt", "completions": […]}` with an optional "metadata".

A group is a set of completions that are scored together. This module also runs inside the sandbox, so it imports only
the standard library.
"""

from typing import Any

from gradebox.thread_forms import is_group

MOST_THREADS = 1024

_MEANT = 'a line of this grader is a group, {"threads": [thread, …]} or {"prompt", "completions": […]}'


def members(value: object) -> list[Any]:
    """Return the threads of a group, each in one of the forms of a thread.

    Raises:
        ValueError: the value is not a group; the message explains what is wrong.
    """
    if type(value) is not dict:
        raise ValueError(f"{_MEANT}, and this is no object")
    if not is_group(value):
        raise ValueError(f'{_MEANT}, and this object has neither "threads" nor "completions"')
    name = "threads" if "threads" in value else "completions"
    found = value[name]
    if type(found) is not list:
        raise ValueError(f'"{name}" of a group must be a list')
    if not 0 < len(found) <= MOST_THREADS:
        raise ValueError(f'"{name}" of a group has 1 to {MOST_THREADS} members, and this has {len(found)}')
    shared = {other: each for other, each in value.items() if other not in (name, "id")}
    if name == "threads":
        if shared:
            other = next(iter(shared))[:80]
            raise ValueError(f'a group has no member "{other}" beside "threads": put it into each thread')
        return found
    if "completion" in shared:
        raise ValueError('a group has "completions", and this has "completion" beside them: send one of them')
    return [{**shared, "completion": completion} for completion in found]
