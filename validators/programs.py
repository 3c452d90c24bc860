"""Warns of programs that a grader starts and a sandbox does not have; it has no shell, either.

`os.system` reports a missing shell only by its number. A grader that catches the error, or takes the number for that of
its command, scores each completion as if it were wrong.
"""

import _ast
import os

from validators.syntax_tree import full_name, imported, nodes, told_once

HINTS = ("subprocess", "system", "popen")
"""Texts of which a source has one if it starts a program."""
_STARTERS = frozenset(("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"))
_SHELLS = frozenset(("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"))
_MODULES = frozenset(("subprocess", "asyncio", "os"))

_Commands = dict[str, list[_ast.expr]]

_NO_SHELL = (
    "`{call}` needs a shell, and the sandbox has none: {comes_to}. Start a program without a shell: "
    "`subprocess.run([sys.executable, ...])`"
)
_NO_PROGRAM = (
    "the sandbox has no program {name!r}, only `python`: where the error is caught, the grader goes on without it"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each program that the source names and the sandbox lacks, and for each way to use a shell."""
    known, commands = imported(tree), _commands(tree)
    calls = [node for node in nodes(tree) if isinstance(node, _ast.Call)]
    return told_once(
        (call.lineno, missing) for call in calls if (missing := _missing(call, full_name(call.func, known), commands))
    )


def _missing(node: _ast.Call, call: str, commands: _Commands) -> str | None:
    """What the sandbox lacks for a call of the function with this full name, and what to do; None if nothing."""
    module, _, function = call.rpartition(".")
    if module not in _MODULES or function not in _STARTERS | _SHELLS:
        return None
    if function in _SHELLS or any(_is_shell(each) for each in node.keywords):
        comes_to = "it returns 32512" if call == "os.system" else "where the error is caught, the grader goes on"
        return _NO_SHELL.format(call=call if function in _SHELLS else f"{call}(..., shell=True)", comes_to=comes_to)
    first = node.args[0] if node.args else None
    for command in commands.get(first.id, []) if isinstance(first, _ast.Name) else [first]:
        name = _program(command)
        if name is not None and not _is_there(name):
            return _NO_PROGRAM.format(name=name[:100])
    return None


def _is_shell(keyword: _ast.keyword) -> bool:
    return keyword.arg == "shell" and isinstance(keyword.value, _ast.Constant) and keyword.value.value is True


def _program(first: _ast.expr | None) -> str | None:
    """The program that a first argument names in its text, as in `run(["name", ...])` and
    `create_subprocess_exec("name", ...)`.
    """
    if isinstance(first, _ast.List | _ast.Tuple) and first.elts:
        first = first.elts[0]
    return first.value if isinstance(first, _ast.Constant) and isinstance(first.value, str) else None


def _commands(tree: _ast.Module) -> _Commands:
    """All lists and tuples that are assigned to each name."""
    commands: _Commands = {}
    for node in nodes(tree):
        if isinstance(node, _ast.Assign) and isinstance(node.value, _ast.List | _ast.Tuple):
            for target in node.targets:
                if isinstance(target, _ast.Name):
                    commands.setdefault(target.id, []).append(node.value)
    return commands


def _is_there(name: str) -> bool:
    folders = os.environ.get("PATH", "").split(":")
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders)  # noqa: PTH110, PTH118  # no `pathlib`
