"""Warns of files that a grader reads and a sandbox does not have.

A grader that goes on without its file may score differently from its author's machine.
"""

import _ast

from validators.syntax_tree import full_name, imported, nodes, told_once

_FUNCTIONS = frozenset(
    ("open", "listdir", "scandir", "walk", "exists", "isfile", "isdir", "getsize", "stat", "glob", "iglob", "load",
     "loadtxt", "genfromtxt", "fromfile", "read_csv", "read_json", "read_parquet", "read_table")
)  # fmt: skip
_OF_MODULES = frozenset(
    ("os", "path", "io", "codecs", "glob", "bz2", "gzip", "lzma", "tarfile", "shelve", "np", "numpy", "pd", "pandas",
     "torch", "joblib")
)  # fmt: skip
_METHODS = frozenset(
    ("open", "exists", "is_file", "is_dir", "stat", "glob", "rglob", "iterdir", "read_text", "read_bytes")
)
_GUESSING = frozenset(f"mimetypes.guess_{what}" for what in ("type", "extension", "all_extensions"))
_MIME_TYPES = "/etc/mime.types"  # most machines have it, and it adds what Python lacks, such as .md and .docx
HINTS = _FUNCTIONS | _METHODS | {"mimetypes"}
"""Texts of which a source has one if it reads a file."""
_WRITERS = frozenset(("write_text", "write_bytes", "touch", "mkdir", "makedirs", "connect", "save", "savetxt"))
_PRESENT = ("/tmp/", "/dev/", "/proc/", "/sys/", "/usr/lib/zoneinfo/", "/usr/lib/python", "/usr/lib/environment")
_MISSING = (
    "the sandbox has no file {path!r}, and none of yours: write its content into the source, or send it "
    "in the metadata of the threads or as the data of an environment"
)


def warnings(tree: _ast.Module, runs_programs: bool) -> list[str]:
    """A warning for each file that the source reads by a literal path and does not write.

    Args:
        tree: the source.
        runs_programs: whether the source runs programs or code, which may write files in the working folder.
    """
    names, known = _named(tree), imported(tree)
    read: list[tuple[int, str]] = []
    written: set[str] = set()
    for node in nodes(tree):
        if isinstance(node, _ast.Call) and (used := _used(node, names)):
            path, is_written = used
            if is_written:
                written.add(path)
            elif path and not f"{path}/".startswith(_PRESENT):
                read.append((node.lineno, path))
        elif isinstance(node, _ast.Call) and full_name(node.func, known) in _GUESSING:
            read.append((node.lineno, _MIME_TYPES))
    return told_once(
        (line, _MISSING.format(path=path[:100]))
        for line, path in read
        if path not in written and not (runs_programs and path[0] != "/")
    )


def _named(tree: _ast.Module) -> dict[str, str]:
    """The paths by the names that are given one: `FILE = "words.txt"`, `FILE = Path("words.txt")`."""
    found = {}
    for node in nodes(tree):
        if isinstance(node, _ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], _ast.Name):
            path = _path(node.value, {})
            if path is not None:
                found[node.targets[0].id] = path
    return found


def _used(call: _ast.Call, names: dict[str, str]) -> tuple[str, bool] | None:
    """The path that a call uses, and whether it writes it; None if it uses none."""
    called = call.func
    name = called.id if isinstance(called, _ast.Name) else called.attr if isinstance(called, _ast.Attribute) else ""
    writes = name in _WRITERS or (name == "open" and any(_is_mode(each) for each in _arguments(call)))
    path = None
    if isinstance(called, _ast.Attribute) and (name in _METHODS or name in _WRITERS):
        path = _path(called.value, names)
    if path is None and call.args and (name in _WRITERS or (name in _FUNCTIONS and _is_of_modules(called))):
        path = _path(call.args[0], names)
    return None if path is None else (path, writes)


def _is_of_modules(called: _ast.expr) -> bool:
    """Whether a function has no module before its name, or one whose functions read files: `os.path.exists`."""
    if not isinstance(called, _ast.Attribute):
        return True
    module = called.value
    return (module.attr if isinstance(module, _ast.Attribute) else getattr(module, "id", "")) in _OF_MODULES


def _arguments(call: _ast.Call) -> list[_ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _is_mode(node: _ast.expr) -> bool:
    """Whether this is a mode that writes, such as `"w"` or `"ab"`."""
    value = node.value if isinstance(node, _ast.Constant) else None
    return isinstance(value, str) and len(value) <= 3 and any(sign in value for sign in "wax+")


def _path(node: _ast.expr, names: dict[str, str]) -> str | None:
    """The literal path that an expression is, or None: `"a.txt"`, `Path("a")`, `Path("a") / name`, or a name of one."""
    while isinstance(node, _ast.BinOp) and isinstance(node.op, _ast.Div):  # as long as the author likes
        node = node.left
    if isinstance(node, _ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, _ast.Name):
        return names.get(node.id)
    if isinstance(node, _ast.Call) and len(node.args) == 1 and _is_path_class(node.func):
        return _path(node.args[0], names)
    return None


def _is_path_class(node: _ast.expr) -> bool:
    return (isinstance(node, _ast.Name) and node.id == "Path") or (
        isinstance(node, _ast.Attribute) and node.attr == "Path"
    )
