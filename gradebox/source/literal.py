"""Values that Python source can spell."""

import ast
import math

MAX_CHARS = 16 * 1024
_MAX_DEPTH = 20
# Scalars that calculate as Python's do: those of other sizes round and overflow in their own way.
_NUMPY = {"bool", "bool_", "float64", "str_"}
_ATOMS = (type(None), bool, int, float, str, bytes)


def literal(value: object) -> str | None:
    """Source text of a plain constant, the same in every process; None when it is none, or is too large.

    Plain are None, bool, int, float, str, bytes, and tuple, list, dict, set and frozenset of those. NumPy's float64,
    bool and str count as Python's.
    """
    try:
        text = _spell(value, _MAX_DEPTH)
    except (_NotPlain, ValueError):  # ValueError: an int of more digits than Python prints
        return None
    return text if len(text) <= MAX_CHARS else None


class _NotPlain(Exception):  # it never leaves this module
    pass


def _spell(value: object, depth: int) -> str:
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in _NUMPY:
        value = value.item()  # type: ignore[attr-defined]  # a scalar of NumPy
        kind = type(value)
    if depth == 0 or (kind not in _ATOMS and kind not in (tuple, list, dict, set, frozenset)):
        raise _NotPlain
    if kind not in _ATOMS and len(value) > MAX_CHARS:  # type: ignore[arg-type]  # what is no atom here is a container
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
    inside = "{" + ", ".join(sorted(items)) + "}" if items else ""  # a set has no order that two processes share
    if isinstance(value, frozenset):
        return f"frozenset({inside})"
    return inside or "set()"


def written(node: ast.stmt, name: str) -> str | None:
    """The constant that an assignment spells out for `name`, as `literal` would spell it."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _assigned([node.target], node.value, name)
    return _assigned(node.targets, node.value, name) if isinstance(node, ast.Assign) else None


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
