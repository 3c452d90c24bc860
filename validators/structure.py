"""Check 2: the source has a top-level `async def grade`.

A definition inside `if`, `try`, `with`, `for`, `while` or `match` at module level counts. One inside a function or a
class does not count.
"""

import _ast
import os
from collections.abc import Iterator

from validators import (
    downloads,
    event_loops,
    files,
    generators,
    imports,
    memory,
    own_modules,
    program_imports,
    programs,
    variables,
)
from validators.candidate import Candidate, CheckFailed
from validators.signature import trl_form, wrong_parameters
from validators.syntax_tree import inside, nodes

_EXAMPLE = "Write `async def grade(thread: StringThread) -> float:` at the top level of the source."


def check(candidate: Candidate) -> str:
    """Selects the last top-level definition of `grade`, which is the one that Python leaves bound."""
    definitions = [node for node in _top_level(candidate.tree.body) if getattr(node, "name", None) == "grade"]
    if not definitions:
        raise CheckFailed(_missing(candidate.tree))
    last = definitions[-1]
    if isinstance(last, _ast.FunctionDef):
        plain = "`grade` is a plain `def`. Make it `async def grade(...)`: nothing else needs to change."
        raise CheckFailed(wrong_parameters(last) or plain, last.lineno, last.col_offset + 1)
    if isinstance(last, _ast.ClassDef):
        raise CheckFailed(f"`grade` is a class. {_EXAMPLE}", last.lineno, last.col_offset + 1)
    candidate.definition = last
    folders = _folders(candidate)
    for path, tree in {"": candidate.tree, **candidate.modules}.items():
        loops = event_loops.calls(tree) if any(hint in candidate.text for hint in event_loops.HINTS) else []
        candidate.runs_loop |= bool(loops)
        found = _warnings(candidate, tree, folders) + event_loops.warnings(tree, last, loops)
        candidate.warnings += (f"{path[:100]}, {warning}" for warning in found) if path else found
    return f"has `async def grade` on line {last.lineno}"


def _warnings(candidate: Candidate, tree: _ast.Module, folders: list[str]) -> list[str]:
    """The warnings of the source, or of a module of the author in it."""
    text, own = candidate.text, own_modules.tops(candidate.modules)
    found = imports.warnings(tree, folders, own)
    if "environ" in text or "getenv" in text:
        found += variables.warnings(tree)
    if any(hint in text for hint in downloads.HINTS):
        found += downloads.warnings(tree, folders)
    if any(hint in text for hint in files.HINTS):
        found += files.warnings(tree, runs_programs="subprocess" in text or "exec" in text)
    if any(hint in text for hint in generators.HINTS):
        found += generators.warnings(tree)
    if any(hint in text for hint in programs.HINTS):
        found += programs.warnings(tree)
    if any(hint in text for hint in memory.HINTS):
        found += memory.warnings(tree)
    if any(hint in text for hint in program_imports.HINTS):
        found += program_imports.warnings(tree, folders, own)
    return found


def _folders(candidate: Candidate) -> list[str]:
    """The folders in which the source finds packages."""
    folders = [candidate.packages] if candidate.packages else []
    data = os.environ.get("ENVIRONMENT_DATA")
    if data:  # a package without a wheel may be there
        folders.append(data)
        if "sys.path" in candidate.text:
            folders += (each.path for each in os.scandir(data) if each.is_dir())
    return folders


_Definition = _ast.FunctionDef | _ast.AsyncFunctionDef | _ast.ClassDef


def _top_level(body: list[_ast.stmt]) -> Iterator[_Definition]:
    """Definitions in source order, including those in blocks that do not open a scope."""
    waiting: list[_ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Definition):
            yield node
        else:
            waiting.extend(reversed(inside(node)))


def _missing(tree: _ast.Module) -> str:
    for node in nodes(tree):
        if isinstance(node, _ast.FunctionDef | _ast.AsyncFunctionDef) and node.name == "grade":
            return f"`grade` on line {node.lineno} is inside a function or a class. {_EXAMPLE}"
    named = [node for node in _top_level(tree.body) if isinstance(node, _ast.AsyncFunctionDef)]
    if named:
        other = wrong_parameters(named[-1])
        advice = f". {other}" if other else ": call it `grade`, or name it by `--function` in the shell."
        return f"there is no `async def grade`, but `async def {named[-1].name[:100]}`{advice}"
    plain = (trl_form(node) for node in _top_level(tree.body) if isinstance(node, _ast.FunctionDef))
    return f"there is no `async def grade`. {next(filter(None, plain), _EXAMPLE)}"
