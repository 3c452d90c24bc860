"""Equality of JSON values.

Graders import this module inside the sandbox, so it imports only the standard library.
"""

from collections.abc import Iterator


def same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal, however deeply they are nested. `1` and `1.0` are, `1` and `true` are
    not.
    """
    levels: list[Iterator[tuple[object, object]]] = [iter([(one, other)])]  # pairs left to compare, by depth
    while levels:
        for a, b in levels[-1]:
            if isinstance(a, dict) and isinstance(b, dict):
                if a.keys() != b.keys():
                    return False
                levels.append(zip(a.values(), map(b.__getitem__, a), strict=True))
                break
            if isinstance(a, list | tuple) and isinstance(b, list | tuple):
                if len(a) != len(b):
                    return False
                levels.append(zip(a, b, strict=True))
                break
            if not _same(a, b):
                return False
        else:
            levels.pop()
    return True


def _same(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and one == other
