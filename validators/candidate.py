"""The state that the checks share: the source and the results of the checks."""

from __future__ import annotations

import _ast
from collections.abc import Callable
from types import CodeType

MODULE = "grader"  # the source's __name__, by which it can be imported
FILENAME = "grader.py"
TEXT_BYTES = 4096


class Candidate:
    """A source and the results of the checks so far. Each check sets the attributes that the next one reads."""

    def __init__(self, source: bytes, packages: str = "", text_bytes: int = TEXT_BYTES) -> None:
        """`packages`: the folder of the packages that the source may import; empty if there are none. `text_bytes`:
        how much of a message of the source, and of its traceback, is shown.
        """
        self.source = source
        self.packages = packages
        self.text_bytes = text_bytes
        self.warnings: list[str] = []
        self.asks: tuple[str, ...] = ()
        self.runs_loop = False  # whether `grade` calls what runs an event loop, as `asyncio.run`
        self.groups = False  # whether `grade` takes a list of threads that belong together
        self.text: str
        self.tree: _ast.Module
        self.modules: dict[str, _ast.Module] = {}  # of the author, in the source; by path
        self.code: CodeType
        self.definition: _ast.AsyncFunctionDef
        self.grade: Callable[[object], object]


class CheckFailed(Exception):
    """A check failed. The message describes the remedy."""

    def __init__(self, message: str, line: int = 0, column: int = 0, trace: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.trace = trace
