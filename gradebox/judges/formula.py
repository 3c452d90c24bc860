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
from functools import partial
from itertools import repeat
from keyword import iskeyword
from typing import Any, cast

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
_ARGUMENTS = {"log": (1, 2), "max": (2, None), "min": (2, None)}  # fewest and most; the other functions have one
_PARSING = allocate_lock()  # CPython 3.11 miscounts the recursion depth if several threads parse at once


class FormulaError(ValueError):
    """The text is not a formula of these names. The message explains why."""


class Undefined(Exception):
    """The formula has no value for these scores. The message explains why."""


class Formula:
    """A formula that uses only these scores, numbers and the eight functions.

    Attributes:
        is_constant: whether its value is the same whatever the scores are, because it names none.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        """Raises FormulaError if the text is not a formula, or can have no value, whatever the scores are."""
        if len(text) > CHARACTERS:
            raise FormulaError(f"the formula is longer than {CHARACTERS} characters: compute less in it")
        try:
            self._root = _parsed(text, names)
            self.is_constant = _check(self._root, names) is not None
        except FormulaError:
            _refuse_unusable_name(text, names)
            raise
        except RecursionError:
            raise FormulaError("the formula is nested too deeply: compute less in it") from None

    def value(self, scores: Mapping[str, float]) -> float:
        """Evaluate the formula. Raises Undefined if the result is not a finite number."""
        try:
            value = _value(self._root, scores)
        except (ArithmeticError, ValueError, RecursionError) as error:
            raise Undefined(f"the formula has no value for these scores: {error}") from error
        if not math.isfinite(value):
            raise Undefined(f"the formula is {value} for these scores, and a score is a finite number")
        return value


def _parsed(text: str, names: Collection[str]) -> ast.expr:
    if not _ALPHABET.fullmatch(text):
        raise FormulaError(f"the formula holds a character that it may not: {_allowed(names)}")
    try:
        with _PARSING:
            # `^` becomes `**`, which binds closer than a product; Python's own `^` does not.
            body = ast.parse(" ".join(text.replace("^", "**").split())).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"the formula is no arithmetic: {error}") from error
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise FormulaError("the formula is no arithmetic: write one expression")
    return body[0].value


def _check(part: ast.expr, names: Collection[str]) -> float | None:
    """Check a part of a formula. Return its value; None if that depends on the scores.

    Raises:
        FormulaError: it uses what formulas do not have, or can have no value.
    """
    if isinstance(part, ast.Name):
        _check_name(part.id, names)
        return None
    operation = _operation(part)
    if operation is None:
        raise FormulaError(f"the formula cannot use {_unknown(part)}: {_allowed(names)}")
    function, operands = operation
    if isinstance(part, ast.Call):
        _check_arguments(part)
    values = [*map(_check, operands, repeat(names))]
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) and values[1] == 0:
        raise FormulaError(f"the formula divides by zero, whatever the scores are: {_text(part)}")
    return None if None in values else _constant(part, function, values)


def _check_name(name: str, names: Collection[str]) -> None:
    if name not in names:
        if name in FUNCTIONS:
            raise FormulaError(f"the formula names the function {name} without arguments: write {name}(…)")
        raise FormulaError(f"the formula cannot use {name}: {_allowed(names)}")


def _check_arguments(call: ast.Call) -> None:
    name, given = ast.unparse(call.func), len(call.args)
    fewest, most = _ARGUMENTS.get(name, (1, 1))
    if given < fewest or (most is not None and given > most):
        wanted = f"{fewest} or more arguments" if most is None else "1 argument" if most == 1 else "1 or 2 arguments"
        raise FormulaError(f"the function {name} takes {wanted}, and has {given} in {_text(call)}")


def _constant(part: ast.expr, function: Callable[..., float], values: list[Any]) -> float:
    """The value of a part without scores."""
    try:
        value = float(function(*values))
    except (ArithmeticError, ValueError) as error:
        raise FormulaError(f"{_text(part)} in the formula has no value: {error}") from error
    if not math.isfinite(value):
        raise FormulaError(f"{_text(part)} in the formula is {value}, and not a finite number")
    return value


def _operation(part: ast.expr) -> tuple[Callable[..., float], list[ast.expr]] | None:
    """The function that gives a part its value, and the parts that it is called with. None if it is not arithmetic."""
    if isinstance(part, ast.BinOp) and type(part.op) in _BINARY:
        return _BINARY[type(part.op)], [part.left, part.right]
    if isinstance(part, ast.UnaryOp) and type(part.op) in _UNARY:
        return _UNARY[type(part.op)], [part.operand]
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and not part.keywords:
        return (FUNCTIONS[part.func.id], part.args) if part.func.id in FUNCTIONS else None
    if isinstance(part, ast.Constant) and type(part.value) in (int, float):
        return partial(float, part.value), []  # type: ignore[arg-type]  # a number, as the line above checks
    return None


def _value(part: ast.expr, scores: Mapping[str, float]) -> float:
    if isinstance(part, ast.Name):
        return scores[part.id]
    function, operands = cast("tuple[Callable[..., float], list[ast.expr]]", _operation(part))  # as `_check` found
    return float(function(*map(_value, operands, repeat(scores))))


def _refuse_unusable_name(text: str, names: Collection[str]) -> None:
    """Raise FormulaError if the text uses a grader whose name a formula cannot hold."""
    for name in names:
        is_used = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
        if is_used and not _is_usable(name) and any(map(str.isalpha, name)):
            better = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
            example = f", such as {better}" if _is_usable(better) else ""
            raise FormulaError(
                f"a formula cannot use the name of the grader {name!r}: rename it to letters, digits and _, with a "
                f"letter first{example}"
            )


def _is_usable(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not iskeyword(name)


def _unknown(part: ast.expr) -> str:
    """What the formula cannot use."""
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id not in FUNCTIONS:
        return f"the function {part.func.id}"
    return _text(part)


def _text(part: ast.expr) -> str:
    return ast.unparse(part).replace(" ** ", " ^ ")[:100]


def _allowed(names: Collection[str]) -> str:
    return (
        f"it is made of the graders {', '.join(sorted(names))[:200]}, numbers, + - * / ^ ( ) , and the functions "
        + ", ".join(FUNCTIONS)
    )
