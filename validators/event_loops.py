"""Finds calls that run an event loop, as `asyncio.run` does. Reward functions may, because trainers run none.

A grader that has such calls is started without a loop. If it needs one too, these calls raise RuntimeError: one that
catches the error scores each completion as if it were wrong. So the checks warn of that.
"""

import _ast
from collections.abc import Iterator

from validators.syntax_tree import full_name, imported, nodes

HINTS = ("asyncio", "anyio", "run_until_complete")
"""Texts of which a source has one if it runs a loop."""
_RUNNER = "asyncio.Runner"
_METHOD = "run_until_complete"
_RUNNERS = frozenset(("asyncio.run", _RUNNER, f"{_RUNNER}.run", "anyio.run", _METHOD))
# With these, the loop may run in a thread or a process of its own, or where no other one runs.
_ELSEWHERE = frozenset(("concurrent", "multiprocessing", "nest_asyncio", "nest_asyncio2", "threading"))
_ELSEWHERE_NAMES = frozenset(("get_running_loop", "is_running", "run_in_executor", "to_thread"))
_AWAITING = _ast.Await | _ast.AsyncFor | _ast.AsyncWith
_IN_A_LOOP = (
    "line {line}: `{call}` raises RuntimeError if `grade` asks or awaits what needs an event loop, as `asyncio.sleep`. "
    "Where the error is caught, the grader goes on. Write `await`, also in the functions that `grade` calls"
)


def calls(tree: _ast.Module) -> list[tuple[int, str]]:
    """The lines of calls that run a loop, each with the function, in what `grade` uses; in a module without `grade`,
    anywhere. Empty if the code asks whether a loop runs, or uses threads of asyncio.
    """
    known = imported(tree)
    for name, value in _definitions(tree).items():
        if runner := _runner(value, known):
            known[name] = runner
    parts = list(_used(tree))
    if _ELSEWHERE_NAMES & {getattr(part, "attr", getattr(part, "id", "")) for part in parts}:
        return []
    found = [(part.lineno, _running(part.func, known)) for part in parts if isinstance(part, _ast.Call)]
    return sorted((line, call) for line, call in found if call)


def warnings(tree: _ast.Module, grade: _ast.AsyncFunctionDef, found: list[tuple[int, str]]) -> list[str]:
    """A warning for the first of the `calls` that were found in the tree, if `grade` awaits something."""
    if not found or {name.partition(".")[0] for name in imported(tree).values()} & _ELSEWHERE:
        return []
    if not any(isinstance(part, _AWAITING) for part in nodes(grade)):
        return []
    return [_IN_A_LOOP.format(line=line, call=call) for line, call in found[:1]]


def _runner(value: _ast.AST, known: dict[str, str]) -> str:
    """What the module assigns to a name, if it is a `Runner` or a function that runs a loop; else empty."""
    if isinstance(value, _ast.Call):
        return _RUNNER if full_name(value.func, known) == _RUNNER else ""
    return _running(value, known) if isinstance(value, _ast.expr) else ""


def _running(function: _ast.expr, known: dict[str, str]) -> str:
    """The function if it runs a loop, else empty."""
    if (name := full_name(function, known)) in _RUNNERS:
        return name
    if not isinstance(function, _ast.Attribute):
        return ""
    if function.attr == "run" and _runner(function.value, known) == _RUNNER:
        return f"{_RUNNER}.run"
    return _METHOD if function.attr == _METHOD else ""


def _used(tree: _ast.Module) -> Iterator[_ast.AST]:
    """The nodes of `grade`, and of the functions and classes that it names, also through others and through what the
    module assigns to names: `JUDGE = Judge()`.
    """
    definitions = _definitions(tree)
    waiting: list[str] = ["grade"] if "grade" in definitions else list(definitions)
    while waiting:
        definition = definitions.pop(waiting.pop(), None)
        for node in nodes(definition) if definition else ():
            if isinstance(node, _ast.Name):
                waiting.append(node.id)
            if not isinstance(definition, _ast.expr):
                yield node
            elif isinstance(node, _ast.Lambda):  # what else is in an expression is called by the module, not by `grade`
                yield from nodes(node)


def _definitions(tree: _ast.Module) -> dict[str, _ast.AST]:
    found: dict[str, _ast.AST] = {}
    for each in tree.body:
        if isinstance(each, _ast.FunctionDef | _ast.AsyncFunctionDef | _ast.ClassDef):
            found[each.name] = each
        elif isinstance(each, _ast.Assign | _ast.AnnAssign) and each.value:
            targets = each.targets if isinstance(each, _ast.Assign) else [each.target]
            found |= {target.id: each.value for target in targets if isinstance(target, _ast.Name)}
    return found
