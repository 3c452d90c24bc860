"""Finds the modules of the author in a source: the texts that it passes to `gradebox.modules.add_modules`."""

import _ast

_ADD = "add_modules"


def texts(tree: _ast.Module) -> dict[str, str]:
    """The texts of the modules, by path. Those that the source computes are left out."""
    found: dict[str, str] = {}
    for node in tree.body:
        call = node.value if isinstance(node, _ast.Expr) else None
        if isinstance(call, _ast.Call) and isinstance(call.func, _ast.Name) and call.func.id == _ADD:
            for argument in call.args:
                if isinstance(argument, _ast.Dict):
                    found |= _literals(argument)
    return found


def names(paths: dict[str, _ast.Module]) -> frozenset[str]:
    """The names by which the modules at these paths are imported."""
    return frozenset(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths)


def _literals(node: _ast.Dict) -> dict[str, str]:
    pairs = zip(node.keys, node.values, strict=True)
    return {
        key.value: value.value
        for key, value in pairs
        if isinstance(key, _ast.Constant)
        and isinstance(value, _ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value.value, str)
    }
