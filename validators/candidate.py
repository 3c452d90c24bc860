"""The state that the checks share: the source and what is known of it."""

from __future__ import annotations

import _ast
from collections.abc import Callable
from types import CodeType, ModuleType

MODULE = "grader"  # the source's __name__, by which it can be imported
FILENAME = "grader.py"


class Candidate:
    """A source and what the checks found so far. Each check sets the attributes that the next one reads."""

    def __init__(self, source: bytes, packages: str = "") -> None:
        """`packages` is the folder of the packages that it may import, where there are some."""
        self.source = source
        self.packages = packages
        self.warnings: list[str] = []
        self.asks: tuple[str, ...] = ()
        self.groups = False  # whether it grades threads that belong together, as a list
        self.text: str
        self.tree: _ast.Module
        self.code: CodeType
        self.definition: _ast.AsyncFunctionDef
        self.module: ModuleType
        self.grade: Callable[[object], object]


class CheckFailed(Exception):
    """A check failed. The message says what to do."""

    def __init__(self, message: str, line: int = 0, column: int = 0, trace: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.trace = trace
