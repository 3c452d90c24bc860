"""Digests of what functions do."""

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
        # Names of nested classes begin with that of the function, which the copy has renamed.
        constants = [
            part for part in each.co_consts if not isinstance(part, CodeType) and ".<locals>." not in str(part)
        ]
        todo += [part for part in each.co_consts if isinstance(part, CodeType)]
        plain = [sorted(map(repr, part)) if isinstance(part, frozenset) else part for part in constants]
        digest.update(repr((_steps(each.co_code), each.co_names, each.co_varnames, each.co_freevars, plain)).encode())
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
