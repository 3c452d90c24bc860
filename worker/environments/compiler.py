"""Compiles modules of an environment, one for each thread. It is a grader's source: it runs in a sandbox alone."""

import base64
import py_compile
import zlib
from pathlib import Path

from gradebox import Score, StringThread

PLACE = "/usr/lib/environment/"
PART = 48_000  # bytes of one answer: as text, 64,000
_BY_HASH = py_compile.PycInvalidationMode.UNCHECKED_HASH
_last: dict[str, bytes] = {}  # the module that was asked for last, as long ones are asked for in parts


async def grade(thread: StringThread) -> float:
    """Prints a part of one compiled module, and scores its size."""
    path, _, start = (thread.completion() or "").partition("\n")
    if path not in _last:
        _last.clear()
        _last[path] = _compiled(PLACE + path)
    packed = _last[path]
    print(base64.b64encode(packed[int(start) : int(start) + PART]).decode(), end="")  # noqa: T201  # this is the answer
    return Score(float(len(packed)))


def _compiled(path: str) -> bytes:
    made = Path("/tmp/compiled.pyc")  # noqa: S108  # the sandbox's own
    py_compile.compile(path, str(made), path, doraise=True, invalidation_mode=_BY_HASH)
    data = made.read_bytes()
    made.unlink()
    return zlib.compress(data, 1)
