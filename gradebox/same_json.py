"""Equality of JSON values.

Graders import this module inside the sandbox, so it imports only the standard library.
"""


def same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal, however deeply they are nested. `1` and `1.0` are, `1` and `true` are
    not.
    """
    pairs = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs += [(value, b[name]) for name, value in a.items()]
        elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif not _same(a, b):
            return False
    return True


def _same(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and one == other
