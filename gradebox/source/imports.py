"""Decides which imports work in a sandbox: those of the standard library, and of gradebox's rooms for graders."""

import ast
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gradebox.source.names import changed_expressions

_GIVEN_ROOMS = ("gradebox.asks", "gradebox.checks", "gradebox.judges")
_GIVEN = {"gradebox", *_GIVEN_ROOMS, "gradebox.evaluators", "gradebox.score", "gradebox.thread", "adaptive_harmony"}
_GIVEN_NAMES = {
    *("NotApplicable", "Score", "StringThread", "StringTurn"),
    *("asks", "checks", "evaluators", "judges", "score", "thread"),
    *("Endpoint", "Grader", "Model", "ModelError", "Reply", "Verdict", "once"),
}
_LISTED = "StringThread, Score, NotApplicable, and what gradebox.asks, .checks, .evaluators and .judges have"
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_LIMITS = ("sys.set_int_max_str_digits", "sys.setrecursionlimit")
_WARNINGS = ("warnings.filterwarnings", "warnings.simplefilter")
# Calls that change the behavior of a standard module, so that code which uses the module needs them.
_SETTINGS = {
    "calendar.setfirstweekday",
    "codecs.register_error",
    "csv.field_size_limit",
    "csv.register_dialect",
    "decimal.getcontext",
    "decimal.setcontext",
    "locale.setlocale",
    "mimetypes.add_type",
    "random.seed",
    *_LIMITS,
    *_WARNINGS,
    "xml.etree.ElementTree.register_namespace",
}
# Their settings change code that does not import them.
OF_ALL_CODE = ("codecs", "sys", "warnings")
COMPARED_OF_ALL_CODE = (*_LIMITS, *_WARNINGS)
# Those of packages that return the setting before, which a program may keep: `old = np.seterr(all="raise")`.
_RETURNING = {"numpy.seterr", "numpy.seterrcall", "numpy.setbufsize"}
# The names of functions that change the behavior of their package, such as `numpy.seterr` or `torch.manual_seed`.
_SETTER = re.compile(r"(set|register)[a-z_]*|[a-z_]*seed(_all|_everything)?")

# Compiled modules may lie elsewhere than the others, on Windows in DLLs.
_FOLDERS = (sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED"), f"{sys.base_exec_prefix}/DLLs")
_LIBRARY = [Path(folder).resolve() for folder in _FOLDERS if folder]

# Modules and names that only compute. Others may train, wait, or reach outside of the process.
_COMPUTING = {
    *("__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "codecs", "collections"),
    *("colorsys", "configparser", "contextlib", "contextvars", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("difflib", "enum", "fractions", "functools", "graphlib", "hashlib", "heapq", "html", "inspect", "io"),
    *("itertools", "json", "keyword", "math", "numbers", "numpy", "operator", "pprint", "queue", "random", "rapidfuzz"),
    *("re", "regex", "shlex", "statistics", "string", "struct", "sympy", "textwrap", "types", "typing"),
    *("typing_extensions", "unicodedata", "uuid", "weakref", "zlib"),
    "adaptive_harmony",
}
_COMPUTING_NAMES = {f"gradebox.{name}" for name in ("NotApplicable", "Score", "StringThread", "StringTurn", "checks")}

Import = ast.Import | ast.ImportFrom
Allowed = Callable[[str], bool]
"""Returns whether an import of a module outside the standard library may be uploaded."""


def nothing(_module: str) -> bool:
    """Allows no module."""
    return False


def of_packages(*names: str) -> Allowed:
    """Allows the modules of these packages."""
    return lambda module: module.partition(".")[0] in names


def only(node: Import, names: set[str]) -> Import:
    """The same import, of these names only."""
    aliases = [alias for alias in node.names if bound_name(alias, node) in names or alias.name == "*"]
    if isinstance(node, ast.Import):
        return ast.Import(names=aliases, lineno=node.lineno, col_offset=node.col_offset)
    return ast.ImportFrom(node.module, aliases, node.level, lineno=node.lineno, col_offset=node.col_offset)


def bound_name(alias: ast.alias, node: Import) -> str:
    """The name that an import binds: `a` for `import a.b`."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)


def missing(node: ast.AST, allowed: Allowed, refused: Allowed) -> Iterator[tuple[Import, str]]:
    """The imports in `node` that would fail in a sandbox, each with the module it imports.

    Allowed imports, and those in a `try` that catches the error, are left out. Of an allowed package, the modules that
    are refused fail.
    """
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in _imported(node):
            if not _is_there(name) and not allowed(name):
                yield node, name
        if isinstance(node, ast.ImportFrom):
            package = "." * node.level + (f"{node.module}." if node.module else "")
            yield from ((node, package + alias.name) for alias in node.names if refused(package + alias.name))
        return
    if isinstance(node, ast.If) and is_for_types(node):
        children: list[ast.AST] = list(node.orelse)
    elif isinstance(node, ast.Try) and _catches_import_error(node):
        children = [*node.handlers, *node.orelse, *node.finalbody]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from missing(child, allowed, refused)


def has_import(node: ast.AST) -> bool:
    """Whether this contains an import."""
    return any(isinstance(part, ast.Import | ast.ImportFrom) for part in ast.walk(node))


def is_for_types(node: ast.If) -> bool:
    """Whether what follows is for type checkers alone."""
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def explain(name: str) -> str:
    """The reason why `name` cannot be imported in a sandbox, and the remedy."""
    top = name.partition(".")[0]
    if top == "gradebox":
        return f"{name} is not there in the sandbox: of gradebox, graders are given {_LISTED} alone"
    if is_installed(top):
        return (
            f"the package {top} is not there in the sandbox, which has the standard library alone: write the grader "
            "without it, make an environment that has it (client.environments.create) and name it (environment=), or "
            "import it within `try: … except ImportError:`. Where it is never reached, go on without it: "
            f"fn=gradebox.grader_source(…, without=[{top!r}])"
        )
    return (
        f"the module {name} is not uploaded: there is no Python file of it, its import fails, or it has the name of "
        "one of the standard library. Mend that, or copy what you use of it into the file of the grader"
    )


def may_be_package(name: str) -> bool:
    """Allows modules that an environment may have: those installed here as packages, and those not found here."""
    top = name.partition(".")[0]
    if not top or top == "gradebox":
        return False
    try:
        found = importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        found = True
    return is_installed(top) or not found


def is_installed(top: str) -> bool:
    """Whether this is an installed package."""
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        return False
    places = [spec.origin or "", *(spec.submodule_search_locations or [])] if spec else []
    return any("site-packages" in place or "dist-packages" in place for place in places)


def full_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The full name of each imported name: `{"getcontext": "decimal.getcontext", "m": "math", "os": "os"}`."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {bound_name(alias, node): f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                bound_name(each, node): each.name if each.asname else bound_name(each, node) for each in node.names
            }
    return found


def only_computes(name: str) -> bool:
    """Whether what has this full name is known to do nothing but compute, so that it can be called again."""
    return name in _COMPUTING_NAMES or name.partition(".")[0] in _COMPUTING or name.startswith("gradebox.checks")


def is_missing(node: Import, allowed: Allowed, refused: Allowed) -> bool:
    """Whether the import fails in a sandbox."""
    return any(True for _ in missing(node, allowed, refused))


def sets_up(node: ast.stmt, imports: dict[str, str]) -> str | None:
    """The function by which a statement such as `getcontext().prec = 50` configures a module, or None.

    `imports` maps imported names to their full names.
    """
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            path = ast.unparse(part.func)
            first, dot, rest = path.partition(".")
            full = imports.get(first, first) + dot + rest
            is_alone = first in imports and (
                (isinstance(node, ast.Expr) and node.value is part)
                or (isinstance(node, ast.Assign) and node.value is part and full in _RETURNING)
            )
            if full in _SETTINGS or (is_alone and _sets_up_package(full)):
                return full
    return None


def stores_in(node: ast.stmt, imports: dict[str, str]) -> str | None:
    """What a statement such as `mp.dps = 50` or `nltk.data.path.append("words")` changes in an installed package, or in
    a module of the standard library that only computes; None if it is no such statement. `imports` is as above.
    """
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", getattr(node, "value", node))]
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and part not in targets]
    for target in targets:
        for changed in changed_expressions(target):
            first, dot, rest = ast.unparse(changed).partition(".")
            full = imports.get(first, "") + dot + rest
            top, is_inner, _ = full.partition(".")
            if first in imports and is_inner and (only_computes(full) or (is_installed(top) and not calls)):
                return full
    return None


def _sets_up_package(full: str) -> bool:
    package, _, name = full.rpartition(".")
    is_standard = package.partition(".")[0] in sys.stdlib_module_names
    return bool(_SETTER.fullmatch(name)) and (not is_standard or only_computes(package))


def _imported(node: Import) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = "." * node.level + (node.module or "")
    if module == "gradebox":
        return [f"gradebox.{alias.name}" for alias in node.names if alias.name not in _GIVEN_NAMES]
    return [module]


def _is_there(name: str) -> bool:
    if name in _GIVEN or name.startswith(tuple(f"{room}." for room in _GIVEN_ROOMS)):
        return True
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and not _is_own(top)


def _is_own(top: str) -> bool:
    """Whether a module of the author has the name of one of the standard library, and is found in its place."""
    path = getattr(sys.modules.get(top), "__file__", None)
    return path is not None and not any(Path(path).resolve().is_relative_to(place) for place in _LIBRARY)


def _catches_import_error(node: ast.Try) -> bool:
    caught = [part for handler in node.handlers if handler.type for part in ast.walk(handler.type)]
    names = {part.id for part in caught if isinstance(part, ast.Name)}
    return bool(names & _IMPORT_ERRORS) or any(handler.type is None for handler in node.handlers)
