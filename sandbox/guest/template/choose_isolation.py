"""Resolves `auto` isolation: `completion` if the source can run code that a completion contains, else `batch`. SQL is
code, too: it can change a database that later completions are compared with.

The decision is by names, so it errs on the side of `completion`. A grader that hides its actions harms only its own
scores.
"""

import _ast
import sys
from importlib.machinery import PathFinder

from sandbox.guest.template.packages import DATA
from validators.syntax_tree import nodes

_CALLS = frozenset({"exec", "eval", "compile", "__import__"})
_MODULES = frozenset({
    "_ctypes", "_interpreters", "_posixsubprocess", "_sqlite3", "_testcapi", "_xxsubinterpreters", "bdb", "builtins",
    "cProfile", "cffi", "code", "codeop", "concurrent", "ctypes", "dbm", "distutils", "doctest", "ensurepip", "idlelib",
    "imp", "importlib", "lib2to3", "marshal", "multiprocessing", "pdb", "pickle", "pkgutil", "posix", "profile",
    "pstats", "pty", "pydoc", "rlcompleter", "runpy", "shelve", "site", "sqlite3", "subprocess", "timeit", "trace",
    "unittest", "venv", "zipapp", "zipimport",
})  # fmt: skip
_OS = ("exec", "fork", "popen", "posix_spawn", "spawn", "startfile", "system")
_ELSEWHERE = frozenset({  # of asyncio and its loops, of logging.config, and of typing, which evaluates texts
    "create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell", "dictConfig",
    "fileConfig", "get_type_hints",
})  # fmt: skip
# Packages of which only these parts read pickles, compile or run text, or read and write memory at any address.
_PACKAGES = frozenset({"numpy", "scipy"})
_PARTS = frozenset({
    "LowLevelCallable", "NpzFile", "_lib", "allow_pickle", "as_strided", "ctypeslib", "datasets", "distutils", "f2py",
    "lib", "load", "read_array", "rv_continuous", "rv_discrete", "testing",
})  # fmt: skip


def runs_code(tree: _ast.Module) -> bool:
    """Whether anything in this source can run code that it receives."""
    if any(_suspicious(node) for node in nodes(tree)):
        return True
    imported = {name for node in nodes(tree) for name in _imported(node)}
    if not _PACKAGES.isdisjoint(imported) and any(_PARTS & _names(node) for node in nodes(tree)):
        return True
    return any(PathFinder.find_spec(name, [DATA]) for name in imported - sys.stdlib_module_names)


def _suspicious(node: _ast.AST) -> bool:
    if isinstance(node, _ast.Name):
        return node.id in _CALLS or node.id == "__builtins__"
    if isinstance(node, _ast.Attribute):
        return node.attr in _ELSEWHERE or (node.attr.startswith(_OS) and _is_os(node.value)) or _is_path(node)
    if isinstance(node, _ast.Import):
        return any(alias.name.partition(".")[0] in _MODULES or _hides_os(alias) for alias in node.names)
    if isinstance(node, _ast.ImportFrom):
        module = (node.module or "").partition(".")[0]
        return module in _MODULES or any(
            (module == "os" and alias.name.startswith((*_OS, "*")))
            or (module == "sys" and alias.name == "path")
            or alias.name in _ELSEWHERE
            for alias in node.names
        )
    return False


def _hides_os(alias: _ast.alias) -> bool:
    """Whether `os` is imported under a name by which `_is_os` does not know it."""
    return alias.name == "os" and alias.asname not in (None, "os", "_os")


def _is_path(node: _ast.Attribute) -> bool:
    """Whether this is `sys.path`: modules found by it may run code, as those among an environment's data may."""
    return node.attr == "path" and isinstance(node.value, _ast.Name) and node.value.id == "sys"


def _imported(node: _ast.AST) -> list[str]:
    """The first names of the modules that a node imports."""
    modules = [alias.name for alias in node.names] if isinstance(node, _ast.Import) else []
    if isinstance(node, _ast.ImportFrom) and node.module and not node.level:
        modules = [node.module]
    return [module.partition(".")[0] for module in modules]


def _names(node: _ast.AST) -> set[str]:
    """The names in one node, without those in its parts."""
    if isinstance(node, _ast.Name):
        return {node.id}
    if isinstance(node, _ast.Attribute):
        return {node.attr}
    if isinstance(node, _ast.keyword):
        return {node.arg or ""}
    if isinstance(node, _ast.Import | _ast.ImportFrom):
        module = (getattr(node, "module", None) or "").split(".")
        return {*module, *(part for alias in node.names for part in alias.name.split("."))}
    return set()


def _is_os(node: _ast.expr) -> bool:
    return isinstance(node, _ast.Name) and node.id in ("os", "_os")
