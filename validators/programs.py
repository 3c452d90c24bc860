"""Warns of programs that a grader starts and a sandbox does not have; it has no shell, either.

`os.system` reports a missing shell only by its number. A grader that catches the error, or takes the number for that of
its command, scores each completion as if it were wrong.
"""

import _ast
import os

from validators.syntax_tree import nodes

HINTS = ("subprocess", "system", "popen")
"""Texts of which a source has one if it starts a program."""
_STARTERS = frozenset(("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"))
_SHELLS = frozenset(("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"))
_MODULES = frozenset(("subprocess", "asyncio", "os"))

_NO_SHELL = (
    "`{call}` needs a shell, and the sandbox has none: {comes_to}. Start a program without a shell: "
    "`subprocess.run([sys.executable, ...])`"
)
_NO_PROGRAM = (
    "the sandbox has no program {name!r}, only `python`: where the error is caught, the grader goes on without it"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each program that the source names and the sandbox lacks, and for each way to use a shell."""
    known = _names(tree)
    first: dict[str, int] = {}
    for node in nodes(tree):
        if isinstance(node, _ast.Call) and (call := _started(node.func, known)) and (missing := _missing(node, call)):
            first[missing] = min(node.lineno, first.get(missing, node.lineno))
    return [f"line {line}: {missing}" for missing, line in sorted(first.items(), key=lambda each: each[1])]


def _missing(node: _ast.Call, call: str) -> str | None:
    """What the sandbox lacks for a call, and what to do."""
    function = call.rpartition(".")[2]
    if function in _SHELLS or any(_is_shell(each) for each in node.keywords):
        comes_to = "it returns 32512" if call == "os.system" else "where the error is caught, the grader goes on"
        return _NO_SHELL.format(call=call if function in _SHELLS else f"{call}(..., shell=True)", comes_to=comes_to)
    name = _program(node)
    return None if name is None or _is_there(name) else _NO_PROGRAM.format(name=name[:100])


def _is_shell(keyword: _ast.keyword) -> bool:
    return keyword.arg == "shell" and isinstance(keyword.value, _ast.Constant) and keyword.value.value is True


def _program(node: _ast.Call) -> str | None:
    """The program that a call names in its text: `run(["name", ...])`, `create_subprocess_exec("name", ...)`."""
    first = node.args[0] if node.args else None
    if isinstance(first, _ast.List | _ast.Tuple) and first.elts:
        first = first.elts[0]
    return first.value if isinstance(first, _ast.Constant) and isinstance(first.value, str) else None


def _is_there(name: str) -> bool:
    folders = os.environ.get("PATH", "").split(":")
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders)  # noqa: PTH110, PTH118  # no `pathlib`


def _names(tree: _ast.Module) -> dict[str, str]:
    """What the names of these modules, and of their functions, are imported as."""
    known: dict[str, str] = {}
    for node in nodes(tree):
        if isinstance(node, _ast.Import):
            known |= {each.asname or each.name: each.name for each in node.names if each.name in _MODULES}
        elif isinstance(node, _ast.ImportFrom) and node.module in _MODULES:
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return known


def _started(called: _ast.expr, known: dict[str, str]) -> str | None:
    """The function by which a call starts a program, such as `subprocess.run`; None if it starts none."""
    if isinstance(called, _ast.Attribute) and isinstance(called.value, _ast.Name):
        call = f"{known.get(called.value.id)}.{called.attr}"
    elif isinstance(called, _ast.Name):
        call = known.get(called.id, "")
    else:
        return None
    module, _, function = call.rpartition(".")
    return call if module in _MODULES and function in _STARTERS | _SHELLS else None
