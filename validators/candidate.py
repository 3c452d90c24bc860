"""A source on its way through the checks."""

from __future__ import annotations

import _ast
from collections.abc import Callable
from types import CodeType, ModuleType

MODULE = "grader"  # what the source sees as its __name__, and can be imported as
FILENAME = "grader.py"


class Candidate:
    """What is known of a source so far: each check adds to it."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.warnings: list[str] = []
        self.text: str
        self.tree: _ast.Module
        self.code: CodeType
        self.definition: _ast.AsyncFunctionDef
        self.module: ModuleType
        self.grade: Callable[[object], object]


class CheckFailed(Exception):
    """A check says no. The message says what to do about it."""

    def __init__(self, message: str, line: int = 0, column: int = 0, trace: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.trace = trace
