"""Equality of JSON values.

Graders import this module inside the sandbox, so it imports only the standard library.
"""

_DEEPEST = 100


def same(one: object, other: object, depth: int = 0) -> bool:
    """Return whether two JSON values are equal. `1` and `1.0` are, `1` and `true` are not."""
    if depth > _DEEPEST:
        return False
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name], depth + 1) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b, depth + 1) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and one == other
