"""Compiles modules of an environment, one per thread. This is the source of a grader, and runs only in a sandbox."""

import base64
import py_compile
import warnings
import zlib
from pathlib import Path

from gradebox import Score, StringThread

PLACE = "/usr/lib/environment/"
PART = 23_000  # bytes of one answer; 30,668 in base64, which is less than what is kept of an outcome's output
_BY_HASH = py_compile.PycInvalidationMode.UNCHECKED_HASH
warnings.simplefilter("ignore")  # a printed SyntaxWarning would spoil the answer
_long: dict[str, bytes] = {}  # modules of several parts, until the last is requested: each is compiled once


async def grade(thread: StringThread) -> float:
    """Prints a part of one compiled module. The score is the packed size of the module."""
    path, _, start = (thread.completion() or "").partition("\n")
    end = int(start) + PART
    packed = _long.pop(path, None) or _compiled(PLACE + path)
    if end < len(packed):
        _long[path] = packed
    print(base64.b64encode(packed[int(start) : end]).decode(), end="")  # noqa: T201  # this is the answer
    return Score(float(len(packed)))


def _compiled(path: str) -> bytes:
    made = Path("/tmp/compiled.pyc")  # noqa: S108  # the sandbox's own
    py_compile.compile(path, str(made), path, doraise=True, invalidation_mode=_BY_HASH)
    data = made.read_bytes()
    made.unlink()
    return zlib.compress(data, 1)
