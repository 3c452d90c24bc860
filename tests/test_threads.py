"""Tests that the threads of this project replace no private attribute of `threading.Thread`."""

import ast
import re
import threading

from tests.test_class_names import ROOMS, ROOT

PRIVATE = {name for name in {*vars(threading.Thread), *vars(threading.Thread())} if re.match("_[a-z]", name)}
NEWER = {"_context", "_os_thread_handle"}  # of Python 3.13 and 3.14


def _threads() -> dict[str, set[str]]:
    """The names of classes of threads, and what each of them defines."""
    texts = (file.read_text() for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    statements = (statement for text in texts if "Thread)" in text for statement in ast.parse(text).body)
    return {
        each.name: {part.attr for part in ast.walk(each) if isinstance(part, ast.Attribute) and _is_of_self(part)}
        | {part.name for part in each.body if isinstance(part, ast.FunctionDef)}
        for each in statements
        if isinstance(each, ast.ClassDef) and any(ast.unparse(base).endswith("Thread") for base in each.bases)
    }


def _is_of_self(part: ast.Attribute) -> bool:
    return isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"


def test_no_thread_replaces_a_private_attribute() -> None:
    """With `_context`, the builder of environments ended at its start in Python 3.14, and built none."""
    threads = _threads()
    assert len(threads) >= 8
    assert not {name: found for name, defined in threads.items() if (found := defined & (PRIVATE | NEWER))}
