"""Finds the modules of the author in a source: the texts that it passes to `gradebox.modules.add_modules`."""

import _ast
from collections.abc import Iterable, Iterator

_ADD = "add_modules"


def texts(tree: _ast.Module) -> dict[str, str]:
    """The texts of the modules, by path. Those that the source computes are left out."""
    return {
        key.value: value.value
        for key, value in constants(tree)
        if isinstance(key.value, str) and isinstance(value.value, str)
    }


def tops(paths: Iterable[str]) -> frozenset[str]:
    """The first names by which the modules at these paths are imported."""
    return frozenset(path.removesuffix(".py").partition("/")[0] for path in paths)


def constants(tree: _ast.Module) -> Iterator[tuple[_ast.Constant, _ast.Constant]]:
    """The path and the text of each module."""
    for node in tree.body:
        call = node.value if isinstance(node, _ast.Expr) else None
        if isinstance(call, _ast.Call) and isinstance(call.func, _ast.Name) and call.func.id == _ADD:
            for argument in call.args:
                if isinstance(argument, _ast.Dict):
                    for key, value in zip(argument.keys, argument.values, strict=True):
                        if isinstance(key, _ast.Constant) and isinstance(value, _ast.Constant):
                            yield key, value
