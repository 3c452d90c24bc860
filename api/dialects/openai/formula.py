"""`calculate_output` of multi graders: arithmetic on scores, and nothing else."""

import ast
import math
import operator
import re
import threading
from collections.abc import Collection, Mapping

from simpleeval import InvalidExpression, SimpleEval

from api.dialects.openai.refused import OpenAIProblem

CHARACTERS = 1_000
_PARSING = threading.Lock()  # in several threads at once, CPython 3.11 loses count of how deep it is
_PARAM = "grader.calculate_output"
# No quotes, brackets, colons, comparisons: what Python's parser is given can be little else than arithmetic.
_ALPHABET = re.compile(r"[A-Za-z0-9_.,+\-*/^() \t\r\n]*")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # of floats: it overflows at once, where integers would fill the memory
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS = {
    "abs": abs, "ceil": math.ceil, "exp": math.exp, "floor": math.floor, "log": math.log, "max": max, "min": min,
    "sqrt": math.sqrt,
}  # fmt: skip
_PARTS = (ast.Expr, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


class Undefined(Exception):
    """The formula has no value for these scores. The message says why."""


class Formula:
    """A formula that names nothing but these graders and the eight functions. Raises OpenAIProblem where it does."""

    def __init__(self, text: str, graders: Collection[str]) -> None:
        if len(text) > CHARACTERS:
            raise OpenAIProblem(f"the formula is longer than {CHARACTERS} characters: compute less in it", _PARAM)
        if not _ALPHABET.fullmatch(text):
            raise OpenAIProblem(
                f"the formula holds a character that it may not: it is made of {_listed(graders)}, numbers, "
                "+ - * / ^ ( ) , and the functions " + ", ".join(_FUNCTIONS),
                _PARAM,
            )
        # A power binds closer than a product, which Python's own ^ does not.
        self._text = " ".join(text.replace("^", "**").split())
        self._tree = _parsed(self._text)
        for node in ast.walk(self._tree):
            _check(node, graders)

    def value(self, scores: Mapping[str, float]) -> float:
        """What the formula comes to. Raises Undefined where that is no finite number."""
        evaluator = SimpleEval(_OPERATORS, _FUNCTIONS, dict(scores))
        evaluator.nodes = {kind: handle for kind, handle in evaluator.nodes.items() if kind in _PARTS}
        try:
            value = float(evaluator.eval(self._text, self._tree))
        except (InvalidExpression, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise Undefined(f"calculate_output has no value for these scores: {error}") from error
        if not math.isfinite(value):
            raise Undefined(f"calculate_output is {value} for these scores, and a reward is a finite number")
        return value


def _parsed(text: str) -> ast.stmt:
    try:
        with _PARSING:
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OpenAIProblem(f"the formula is no arithmetic: {error}", _PARAM) from error
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise OpenAIProblem("the formula is no arithmetic: write one expression", _PARAM)
    return body[0]


def _check(node: ast.AST, graders: Collection[str]) -> None:
    if isinstance(node, ast.operator | ast.unaryop):
        known = type(node) in _OPERATORS
    elif isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
    elif isinstance(node, ast.Constant):
        known = type(node.value) in (int, float)
    elif isinstance(node, ast.Name):
        known = node.id in graders or node.id in _FUNCTIONS
    else:
        known = isinstance(node, (*_PARTS, ast.expr_context))
    if not known:
        what = node.id if isinstance(node, ast.Name) else type(node).__name__
        raise OpenAIProblem(
            f"the formula cannot use {what}: it knows {_listed(graders)}, numbers, + - * / ^ and the functions "
            + ", ".join(_FUNCTIONS),
            _PARAM,
        )


def _listed(graders: Collection[str]) -> str:
    return "the graders " + ", ".join(sorted(graders))[:200]
