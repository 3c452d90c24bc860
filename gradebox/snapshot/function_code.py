"""Digests of what functions do."""

import dis
import hashlib
import sys
from opcode import hasjabs, hasjrel, opmap
from types import CodeType

UNKNOWN = "?"
"""Stands for a part that cannot be compared: it equals every text."""
_AS_ATTRIBUTE = {opmap.get("LOAD_METHOD", -1): opmap["LOAD_ATTR"]}
_OF_CALLS = {opmap.get(name) for name in ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL")}
_JUMPS = {*hasjrel, *hasjabs}  # their distance depends on the instructions between
# The lowest bit of the argument marks a call.
_MARKED = {opmap["LOAD_GLOBAL"], *([opmap["LOAD_ATTR"]] if sys.version_info >= (3, 12) else [])}


def code_text(code: CodeType) -> str:
    """A digest of what a function does. UNKNOWN if pytest has rewritten its assertions."""
    digest = hashlib.sha256()
    todo = [code]
    while todo:
        each = todo.pop()
        if "@pytest_ar" in each.co_names:
            return UNKNOWN
        todo += [part for part in each.co_consts if isinstance(part, CodeType)]
        has_line = "__firstlineno__" in each.co_names  # a class, from Python 3.13 on
        does = _steps_of_class(each) if has_line else [_steps(each.co_code), *map(_constant, each.co_consts)]
        digest.update(repr((does, each.co_names, each.co_varnames, each.co_freevars)).encode())
    return f"code {digest.hexdigest()[:16]}"


def _steps(code: bytes) -> list[tuple[int, int]]:
    """The instructions, without what depends on whether the module is imported in the same text: Python compiles
    `re.search` as an attribute below `import re`, and as a method in another cell of a notebook.
    """
    return [
        (_AS_ATTRIBUTE.get(each, each), 0 if each in _JUMPS else number >> (each in _MARKED))
        for each, number in zip(code[::2], code[1::2], strict=True)
        if each not in _OF_CALLS
    ]


def _steps_of_class(code: CodeType) -> list[tuple[str, object]]:
    """As `_steps`, with the constants, and without the number of the class's first line."""
    steps = [
        (each.opname, 0 if each.opcode in _JUMPS else _constant(each.argval))
        for each in dis.get_instructions(code)
        if each.opcode not in _OF_CALLS
    ]
    for line in [n for n, step in enumerate(steps) if step == ("STORE_NAME", "__firstlineno__")]:
        del steps[line - 1 : line + 1]
    return steps


def _constant(value: object) -> object:
    # Names of nested classes begin with that of the function, which the copy has renamed.
    if isinstance(value, CodeType) or ".<locals>." in str(value):
        return None
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value
