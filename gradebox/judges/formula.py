"""Arithmetic on named scores, and nothing else: `0.7 * helpful + 0.3 * min(polite, brief)`.

A formula is parsed and evaluated by walking its tree; it never runs as Python. Its size is bounded, and it computes
only with floats.
"""

import ast
import math
import operator
import re
from _thread import allocate_lock
from collections.abc import Callable, Collection, Mapping
from typing import Any

CHARACTERS = 1_000
# No quotes, brackets, colons or comparisons: the input of Python's parser can be little more than arithmetic.
_ALPHABET = re.compile(r"[A-Za-z0-9_.,+\-*/^() \t\r\n]*")
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # floats only, so a large power overflows immediately
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "ceil": math.ceil, "exp": math.exp, "floor": math.floor, "log": math.log, "max": max, "min": min,
    "sqrt": math.sqrt,
}  # fmt: skip
_PARSING = allocate_lock()  # CPython 3.11 miscounts the recursion depth if several threads parse at once
_KNOWN = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.expr_context)


class FormulaError(ValueError):
    """The text is not a formula of these names. The message explains why."""


class Undefined(Exception):
    """The formula has no value for these scores. The message explains why."""


class Formula:
    """A formula that uses only these scores, numbers and the eight functions."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        """Raises FormulaError if the text is not a formula."""
        if len(text) > CHARACTERS:
            raise FormulaError(f"the formula is longer than {CHARACTERS} characters: compute less in it")
        if not _ALPHABET.fullmatch(text):
            raise FormulaError(
                f"the formula holds a character that it may not: it is made of {_listed(names)}, numbers, "
                "+ - * / ^ ( ) , and the functions " + ", ".join(FUNCTIONS)
            )
        # `^` becomes `**`, which binds closer than a product; Python's own `^` does not.
        self._root = _parsed(" ".join(text.replace("^", "**").split()))
        for node in ast.walk(self._root):
            _check(node, names)

    def value(self, scores: Mapping[str, float]) -> float:
        """Evaluate the formula. Raises Undefined if the result is not a finite number."""
        try:
            value = float(_value(self._root, scores))
        except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise Undefined(f"the formula has no value for these scores: {error}") from error
        if not math.isfinite(value):
            raise Undefined(f"the formula is {value} for these scores, and a score is a finite number")
        return value


def _parsed(text: str) -> ast.expr:
    try:
        with _PARSING:
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"the formula is no arithmetic: {error}") from error
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise FormulaError("the formula is no arithmetic: write one expression")
    return body[0].value


def _check(node: ast.AST, names: Collection[str]) -> None:
    if isinstance(node, ast.operator):
        known = type(node) in _BINARY
    elif isinstance(node, ast.unaryop):
        known = type(node) in _UNARY
    elif isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
    elif isinstance(node, ast.Constant):
        known = type(node.value) in (int, float)
    elif isinstance(node, ast.Name):
        known = node.id in names or node.id in FUNCTIONS
    else:
        known = isinstance(node, _KNOWN)
    if not known:
        what = node.id if isinstance(node, ast.Name) else type(node).__name__
        raise FormulaError(
            f"the formula cannot use {what}: it knows {_listed(names)}, numbers, + - * / ^ and the functions "
            + ", ".join(FUNCTIONS)
        )


def _value(node: ast.expr, scores: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, scores), _value(node.right, scores))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, scores))
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]  # `_check` accepts only numbers
    if isinstance(node, ast.Name) and node.id in scores:
        return scores[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return float(FUNCTIONS[node.func.id](*(_value(part, scores) for part in node.args)))
    raise TypeError(f"{ast.unparse(node)} is a function: call it")


def _listed(names: Collection[str]) -> str:
    return "the graders " + ", ".join(sorted(names))[:200]
