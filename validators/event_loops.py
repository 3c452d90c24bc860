"""Warns of calls that run an event loop, as `asyncio.run` does: they raise RuntimeError in `grade`, which runs in one.

A trainer calls its reward functions without a loop, so they may run one. A grader that calls such a function and
catches the error scores each completion as if it were wrong.
"""

import _ast
from collections.abc import Iterator

from validators.syntax_tree import full_name, imported, nodes

HINTS = ("asyncio.run", "import run", "run_until_complete")
"""Texts of which a source has one if it runs a loop."""
# With these, the loop may run in a thread or a process of its own, or where no other one runs.
_ELSEWHERE = frozenset(("concurrent", "multiprocessing", "nest_asyncio", "nest_asyncio2", "threading"))
_ELSEWHERE_NAMES = frozenset(("get_running_loop", "is_running", "run_in_executor", "to_thread"))
_IN_A_LOOP = (
    "line {line}: `{call}` raises RuntimeError in `grade`, which runs in an event loop: where the error is caught, the "
    "grader goes on. Write `await`, also in the functions that `grade` calls"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for the first call that runs a loop, in what `grade` uses; in a module without `grade`, anywhere."""
    known = imported(tree)
    parts = list(_used(tree))
    names = {getattr(part, "attr", getattr(part, "id", "")) for part in parts}
    if names & _ELSEWHERE_NAMES or {name.partition(".")[0] for name in known.values()} & _ELSEWHERE:
        return []
    calls = [(part.lineno, _running(part, known)) for part in parts if isinstance(part, _ast.Call)]
    return [_IN_A_LOOP.format(line=line, call=call) for line, call in sorted(calls) if call][:1]


def _running(node: _ast.Call, known: dict[str, str]) -> str:
    """The function that runs a loop, empty if the call is of another one."""
    if full_name(node.func, known) == "asyncio.run":
        return "asyncio.run"
    is_method = isinstance(node.func, _ast.Attribute) and node.func.attr == "run_until_complete"
    return "run_until_complete" if is_method else ""


def _used(tree: _ast.Module) -> Iterator[_ast.AST]:
    """The nodes of `grade`, and of the functions and classes that it names, also through others."""
    kinds = _ast.FunctionDef | _ast.AsyncFunctionDef | _ast.ClassDef
    definitions = {each.name: each for each in tree.body if isinstance(each, kinds)}
    waiting = ["grade"] if "grade" in definitions else list(definitions)
    while waiting:
        definition = definitions.pop(waiting.pop(), None)
        for node in nodes(definition) if definition else ():
            yield node
            if isinstance(node, _ast.Name):
                waiting.append(node.id)
