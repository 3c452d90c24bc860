"""Writes values as Python literals."""

import ast
import math
from collections.abc import Mapping
from typing import Any

MAX_CHARS = 16 * 1024
_MAX_DEPTH = 20
# NumPy scalars that calculate like Python's. Those of other sizes round and overflow differently.
_NUMPY = {"bool", "bool_", "float64", "str_"}
_ATOMS = (type(None), bool, int, float, str, bytes)


def literal(value: object) -> str | None:
    """The source text of a plain constant, equal in every process. None if the value is not plain or is too large.

    Plain values are None, bool, int, float, str, bytes, and tuple, list, dict, set and frozenset of them. NumPy's
    float64, bool and str are treated as Python's.
    """
    try:
        text = _spell(value, _MAX_DEPTH)
    except (_NotPlain, ValueError):  # ValueError: an int with more digits than Python prints
        return None
    return text if len(text) <= MAX_CHARS else None


def is_constant(value: object) -> bool:
    """Whether this is a plain value that nothing can change, nor anything in it."""
    if literal(value) is None:
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


class _NotPlain(Exception):  # never leaves this module
    pass


def _spell(value: object, depth: int) -> str:
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in _NUMPY:
        value = value.item()  # type: ignore[attr-defined]  # a scalar of NumPy
        kind = type(value)
    if depth == 0 or (kind not in _ATOMS and kind not in (tuple, list, dict, set, frozenset)):
        raise _NotPlain
    if kind not in _ATOMS and len(value) > MAX_CHARS:  # type: ignore[arg-type]  # a non-atom here is a container
        raise _NotPlain
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, dict):
        pairs = [f"{_spell(key, depth - 1)}: {_spell(item, depth - 1)}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, tuple | list | set | frozenset):
        return _brackets(value, [_spell(item, depth - 1) for item in value])
    return repr(value[: MAX_CHARS + 1] if isinstance(value, str | bytes) else value)


def _brackets(value: object, items: list[str]) -> str:
    if isinstance(value, tuple):
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, list):
        return f"[{', '.join(items)}]"
    inside = "{" + ", ".join(sorted(items)) + "}" if items else ""  # the order of a set differs between processes
    if isinstance(value, frozenset):
        return f"frozenset({inside})"
    return inside or "set()"


def written(node: ast.stmt, name: str) -> str | None:
    """The constant that an assignment gives `name` literally, in the form of `literal`; None if there is none."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _assigned([node.target], node.value, name)
    return _assigned(node.targets, node.value, name) if isinstance(node, ast.Assign) else None


def holds_named(node: ast.stmt, live: object, values: Mapping[str, Any]) -> bool:
    """Whether an assignment such as `TABLE = {"a": EMPTY}` gives the current value, and the text of that would have a
    copy of what the name has: a list, dict or set, or NaN, which `is` and `in` tell from its copy. So does `math.nan`.
    """
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    parts = [] if value is None else ast.walk(value)
    try:
        named = [_named(part, values) for part in parts if isinstance(part, ast.Name | ast.Attribute)]
        if not any(type(each) in (list, dict, set) or (type(each) is float and math.isnan(each)) for each in named):
            return False
        return literal(_displayed(value, values)) == literal(live)
    except (KeyError, TypeError):  # a name is gone, or the value is computed
        return False


def _named(node: ast.Name | ast.Attribute, values: Mapping[str, Any]) -> object:
    """The value of a name, or `math.nan`.

    Raises:
        KeyError: there is no such name, or it is another attribute.
    """
    if isinstance(node, ast.Name):
        return values[node.id]
    if node.attr == "nan" and isinstance(node.value, ast.Name) and values.get(node.value.id) is math:
        return math.nan
    raise KeyError(node.attr)


def _displayed(node: ast.expr | None, values: Mapping[str, Any]) -> object:
    if isinstance(node, ast.Name | ast.Attribute):
        return _named(node, values)
    if isinstance(node, ast.List | ast.Tuple):
        items = [_displayed(each, values) for each in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_displayed(key, values): _displayed(item, values) for key, item in pairs}
    if isinstance(node, ast.Constant):
        return node.value
    raise TypeError


def _assigned(targets: list[ast.expr], value: ast.expr, name: str) -> str | None:
    for target in targets:
        if isinstance(target, ast.Name) and target.id == name:
            try:
                return literal(ast.literal_eval(value))
            except ValueError:  # an expression
                return None
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for part, item in zip(target.elts, value.elts, strict=False):
                if found := _assigned([part], item, name):
                    return found
    return None
