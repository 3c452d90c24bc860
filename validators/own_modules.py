"""Finds the modules of the author in a source: the texts that it passes to `gradebox.modules.add_modules`."""

import _ast
from collections.abc import Iterable, Iterator

from validators.syntax_tree import nodes

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
    for call in _calls(tree):
        for argument in call.args:
            if isinstance(argument, _ast.Dict):
                for key, value in zip(argument.keys, argument.values, strict=True):
                    if isinstance(key, _ast.Constant) and isinstance(value, _ast.Constant):
                        yield key, value


def adds_unseen(tree: _ast.Module) -> bool:
    """Whether the source may add modules whose texts are not among its constants."""
    seen = {id(call.func) for call in _calls(tree) if not call.keywords and all(map(_is_constant, call.args))}
    # Fewer texts if some are bytes, which can be imported too, or if two modules have one path.
    return _names_it(tree, seen) or len(texts(tree)) < len(list(constants(tree)))


def adds_any(tree: _ast.Module) -> bool:
    """Whether a module of the author adds modules, whose texts nothing reads."""
    return _names_it(tree, set())


def _names_it(tree: _ast.Module, seen: set[int]) -> bool:
    for node in nodes(tree):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        if name == _ADD and id(node) not in seen:
            return True
        if isinstance(node, _ast.alias) and node.name == _ADD and node.asname not in (None, _ADD):
            return True
    return False


def _calls(tree: _ast.Module) -> Iterator[_ast.Call]:
    """The statements at module level that call the function."""
    for node in tree.body:
        call = node.value if isinstance(node, _ast.Expr) else None
        if isinstance(call, _ast.Call) and _ADD in (getattr(call.func, "id", ""), getattr(call.func, "attr", "")):
            yield call


def _is_constant(node: _ast.expr) -> bool:
    """Whether this is a dict of constants."""
    return isinstance(node, _ast.Dict) and all(isinstance(each, _ast.Constant) for each in (*node.keys, *node.values))
