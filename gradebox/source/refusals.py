"""Refuses what cannot be uploaded, with the reason and the remedy."""

from __future__ import annotations

import ast
import os
import re
from typing import NamedTuple

from gradebox.errors import SourceError
from gradebox.source import imports
from gradebox.source.module import Statement
from gradebox.source.names import is_definition

_FROM_OUTSIDE = {"environ", "environb", "getenv", "getpass"}
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH")  # in the name of a variable
_SECRET_CHARS = 6  # shorter values are contained in others by chance
_FROM_COMMAND = {"parse_args", "parse_known_args", "argv"}


class MissingPackageError(SourceError):
    """The sandbox lacks a package that is installed here."""

    def __init__(self, message: str, package: str) -> None:
        super().__init__(message)
        self.package = package


class Need(NamedTuple):
    """A name that `user` reads when it is called or, with `before`, when the statement with that index runs."""

    name: str
    user: str
    before: int | None = None


def refuse_imports(node: ast.AST, need: Need, label: str, allowed: imports.Allowed, refused: imports.Allowed) -> None:
    """Raises SourceError for an import that would fail in the sandbox, MissingPackageError if it is of a package."""
    for statement, name in imports.missing(node, allowed, refused):
        message = (
            f"{need.user} needs `{ast.unparse(statement)}` ({label}, line {statement.lineno}), "
            f"and {imports.explain(name)}"
        )
        top = name.partition(".")[0]
        raise MissingPackageError(message, top) if imports.is_installed(top) else SourceError(message)


def refuse_own_module(node: ast.AST, need: Need) -> None:
    """Raises SourceError for `sys.modules[...]` and `grade.__globals__`, by which a function looks up names of its
    module.
    """
    for part in ast.walk(node):
        # Setting an entry is none: `sys.modules["resource"] = None` is usual before a program is run.
        is_look_up = (
            isinstance(part, ast.Subscript)
            and isinstance(part.ctx, ast.Load)
            and ast.unparse(part.value) == "sys.modules"
        )
        if isinstance(part, ast.Attribute):
            is_look_up = part.attr == "__globals__" or ast.unparse(part) == "sys.modules.get"
        if is_look_up:
            raise SourceError(
                f"{need.user} uses `{ast.unparse(part)}`, and only what a grader names is uploaded: put what it looks "
                "up there into a dict at module level"
            )


def refuse_module_name(node: ast.AST, need: Need, name: str | None) -> None:
    """Raises SourceError for `__name__ == "__main__"` in a module of this name, which is another one in the sandbox.
    A module that has none is refused.
    """
    if name is None:
        raise SourceError(
            f"{need.user} was defined by `%run`, or by `exec`, in a namespace without `__name__`, and what belongs to "
            "the grader is found by that name: use `%run -i`, or set a name, as in "
            "exec(code, {'__name__': 'graders'})"
        )
    for part in ast.walk(node):
        if isinstance(part, ast.Compare):
            inside = list(ast.walk(part))
            is_of_name = any(isinstance(each, ast.Name) and each.id == "__name__" for each in inside)
            if is_of_name and any(isinstance(each, ast.Constant) and each.value == name for each in inside):
                raise SourceError(
                    f"{need.user} uses `{ast.unparse(part)}`, and in the sandbox the module has another name: assign "
                    "it to a constant at module level, which is uploaded as its value here, and use that"
                )


def refuse_environment(statement: Statement, need: Need) -> None:
    """Raises SourceError for a value from this machine, which may be a secret."""
    if name := _used(statement, _FROM_OUTSIDE):
        is_data = "ENVIRONMENT_DATA" in statement.source
        remedy = (
            "Read ENVIRONMENT_DATA in a function: only the sandbox has it"
            if is_data
            else "Write the value into the source"
        )
        raise SourceError(
            f"{need.user} uses {need.name}, which {statement.where} takes from this machine ({name}): the sandbox "
            f"has none of your variables, and their values are not uploaded unasked. {remedy}"
        )


def refuse_secret(value: str, need: Need) -> None:
    """Raises SourceError for a constant, as a text, that contains the value of a variable such as `HF_TOKEN`. It may
    come from there by a function.
    """
    for name, secret in os.environ.items():
        if _SECRET.search(name.upper()) and len(secret) >= _SECRET_CHARS and repr(secret)[1:-1] in value:
            raise SourceError(
                f"{need.user} uses {need.name}, whose value contains that of your environment variable {name}: values "
                "from your environment are not uploaded unasked. Write it into the source if the grader needs it"
            )


def refuse_command_line(statement: Statement, need: Need) -> None:
    """Raises SourceError for a statement that would read the command line again, in the sandbox."""
    if name := _used(statement, _FROM_COMMAND):
        raise SourceError(
            f"{need.user} uses {need.name}, which {statement.where} takes from the command line ({name}): the sandbox "
            "has none. Copy what the grader needs into a constant of its own, as in LIMIT = args.limit"
        )


def _used(statement: Statement, names: set[str]) -> str | None:
    """The first of these names that the statement uses, also as an attribute; None in a definition."""
    if is_definition(statement.node):
        return None
    for part in ast.walk(statement.node):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name in names:
            return name
    return None
