"""Warns of programs that get less memory in a sandbox than on their author's machine.

A program that needs more gets a `MemoryError`. Functions that run programs take it for a fault of the program, and the
grader scores a right completion as if it were wrong.
"""

import _ast
import resource

from validators.syntax_tree import nodes

HINTS = ("RLIMIT_AS", "RLIMIT_DATA", "reliability_guard")
"""Names of which a source has one if it limits programs as HumanEval, APPS, LiveCodeBench and others do."""
_USUAL_MB = 2048  # the most that a grader can have; the usual limit of such programs is 4 GiB
_LITTLE = (
    "line {line}: programs that the grader runs get at most {most} MiB of memory here. One that needs more gets a "
    "`MemoryError`, and then seems to be wrong. If yours may use as much as on other machines, create the grader with "
    f"more (`--memory-mb {_USUAL_MB}`, `memory_mb={_USUAL_MB}`)"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning if the source limits the memory of programs, and the sandbox has less than they usually get."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    lines = [getattr(node, "lineno", 0) for node in nodes(tree) if _name(node) in HINTS]
    if not lines or most == resource.RLIM_INFINITY or most >> 20 >= _USUAL_MB:
        return []
    return [_LITTLE.format(line=min(lines), most=most >> 20)]


def _name(node: _ast.AST) -> str:
    if isinstance(node, _ast.FunctionDef | _ast.alias):
        return node.name
    return node.attr if isinstance(node, _ast.Attribute) else ""
