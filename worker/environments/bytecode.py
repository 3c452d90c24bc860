"""Compiles the modules of an environment ahead, so that a grader need not do it each time that it is loaded.

The compiler is a grader: it reads the environment in a sandbox like any, and what it says is bounded like any outcome.
A compiler can be attacked by what it compiles: what comes of it lands beside that source, and nowhere else.
"""

import base64
import importlib.util
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import structlog

from gradebox.outcome import Outcome
from sandbox.environments import DATA
from sandbox.errors import SandboxError
from sandbox.grader_source import GraderSource
from sandbox.limits import MAX_STDOUT_BYTES, MIB
from sandbox.pool import Pool
from worker.environments.compiler import PART

_SOURCE = Path(__file__).with_name("compiler.py").read_text("utf-8")
_MOST_BYTES = 16 * MIB  # of one compiled module
_TIMEOUT_S = 30.0
_MEMORY_MB = 1024
_LEFT_OUT = {"test", "tests", "testing"}  # half of all modules, and no grader imports them
_MOST_PARTS = 500

_log = structlog.get_logger(__name__)


def compile_all(pool: Pool, folder: Path, goes_on: Callable[[], None]) -> int:
    """Compiles what lies in a staged folder. Returns how many modules were; those that cannot be stay as they are."""
    source = GraderSource(
        _SOURCE,
        "batch",
        _TIMEOUT_S,
        _MEMORY_MB,
        project="",  # it sees nobody's completions
        environment=folder.name,
        stdout_bytes=MAX_STDOUT_BYTES,
    )
    modules = [*_modules(folder)]
    try:
        with pool.grading(source) as grading:

            def stop(_done: int) -> bool:
                goes_on()
                return False

            def answers(asked: Sequence[tuple[str, int]]) -> list[Outcome]:
                lines = b"".join(_line(path, start) for path, start in asked)
                return grading.score(lines, 0, "compiler", len(asked), stop=stop)

            return _compile(folder, modules, answers) if modules else 0
    except SandboxError as error:
        _log.warning("the modules of an environment are not compiled ahead", error=str(error))
        return 0


def _compile(
    folder: Path, modules: Sequence[str], answers: Callable[[Sequence[tuple[str, int]]], list[Outcome]]
) -> int:
    first = [_part(outcome) for outcome in answers([(path, 0) for path in modules])]
    wanted = [
        (path, start)
        for path, found in zip(modules, first, strict=True)
        if found is not None
        for start in range(PART, min(found[0], PART * _MOST_PARTS), PART)
    ]
    more: dict[str, list[bytes | None]] = {}
    for (path, _), outcome in zip(wanted, answers(wanted) if wanted else [], strict=True):
        part = _part(outcome)
        more.setdefault(path, []).append(part and part[1])
    compiled = 0
    for path, found in zip(modules, first, strict=True):
        parts = [found and found[1], *more.get(path, [])]
        if found is not None and None not in parts:
            compiled += _write(folder / path, b"".join(part for part in parts if part is not None), found[0])
    return compiled


def _modules(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not _LEFT_OUT & {*relative.parts[:-1]} and relative.parts[0] != DATA and "\n" not in str(relative):
            yield relative.as_posix()


def _line(path: str, start: int) -> bytes:
    return json.dumps({"completion": f"{path}\n{start}"}).encode() + b"\n"


def _part(outcome: Outcome) -> tuple[int, bytes] | None:
    """The size of a compiled module as it is packed, and a part of it; None where there is none."""
    if outcome.score is None or outcome.stdout is None or not 0 < outcome.score < _MOST_BYTES:
        return None
    try:
        return int(outcome.score), base64.b64decode(outcome.stdout, validate=True)
    except ValueError:
        return None


def _write(path: Path, packed: bytes, size: int) -> bool:
    """Writes a compiled module beside its source, where it is one of this Python."""
    if len(packed) != size:
        return False
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(packed, _MOST_BYTES)
    except zlib.error:
        return False
    head = importlib.util.MAGIC_NUMBER + b"\1\0\0\0"  # it counts as it is: nobody compares it with the source again
    if not reader.eof or data[:16] != head + importlib.util.source_hash(path.read_bytes()):
        return False
    target = Path(importlib.util.cache_from_source(str(path)))
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(data)
    return True
