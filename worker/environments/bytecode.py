"""Compiles the modules of an environment in advance, so that graders do not compile them at each load.

The compiler is a grader: it reads the environment in a sandbox like any grader, and its output is bounded like any
outcome. A source can attack the compiler, so the result is written only beside that source.
"""

import base64
import importlib.util
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import structlog

from gradebox.outcome import Outcome
from sandbox.environments import DATA
from sandbox.errors import SandboxError
from sandbox.grader_source import GraderSource
from sandbox.limits import MAX_STDOUT_BYTES, MIB
from sandbox.pool.pool import Pool
from worker.environments.compiler import PART

_SOURCE = Path(__file__).with_name("compiler.py").read_text("utf-8")
_MOST_BYTES = 16 * MIB  # of one compiled module
_TIMEOUT_S = 30.0
_MEMORY_MB = 1024
_PATIENCE_S = 300.0  # for all modules of an environment; the remaining modules stay uncompiled
_GROUP_MODULES, _GROUP_BYTES = 500, 16 * MIB  # compiled at a time, and held in memory here
_LEFT_OUT = {"test", "tests", "testing"}  # half of all modules, and no grader imports them
_MOST_PARTS = 1000
_LONGEST_NAME = 255  # bytes, of a file

_log = structlog.get_logger(__name__)


def compile_all(pool: Pool, folder: Path, most_bytes: int, goes_on: Callable[[], None]) -> None:
    """Compiles the modules of a staged folder, to at most `most_bytes`. Modules that cannot be compiled stay as they
    are.
    """
    source = GraderSource(
        _SOURCE,
        "batch",
        _TIMEOUT_S,
        _MEMORY_MB,
        project="",  # it receives no project's completions
        environment=folder.name,
        stdout_bytes=MAX_STDOUT_BYTES,
    )
    until = time.monotonic() + _PATIENCE_S
    try:
        with pool.grading(source) as grading:

            def stop(_done: int = 0) -> bool:
                goes_on()
                return time.monotonic() > until

            def answers(asked: Sequence[tuple[str, int]]) -> list[Outcome]:
                lines = b"".join(_line(path, start) for path, start in asked)
                return grading.score(lines, 0, "compiler", len(asked), stop=stop)

            for modules in _groups(folder):
                for path, data in _compile(folder, modules, answers):
                    most_bytes -= len(data)
                    if most_bytes < 0:
                        return
                    _write(path, data)
                if stop():
                    return
    except SandboxError as error:
        _log.warning("the modules of an environment could not be compiled in advance", error=str(error))


def _write(path: Path, data: bytes) -> None:
    """Writes byte code to where Python looks for it, unless the name of that file is too long."""
    target = Path(importlib.util.cache_from_source(str(path)))
    if len(target.name.encode()) <= _LONGEST_NAME:
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)


def _compile(
    folder: Path, modules: Sequence[str], answers: Callable[[Sequence[tuple[str, int]]], list[Outcome]]
) -> Iterator[tuple[Path, bytes]]:
    """The modules that can be compiled, each with its byte code. There are fewer answers if the time runs out."""
    found = {
        path: _part(outcome) for path, outcome in zip(modules, answers([(path, 0) for path in modules]), strict=False)
    }
    wanted = [
        (path, start)
        for path, part in found.items()
        if part is not None
        for start in range(PART, min(part[0], PART * _MOST_PARTS), PART)
    ]
    more: dict[str, list[bytes]] = {}
    for (path, _), outcome in zip(wanted, answers(wanted) if wanted else [], strict=False):
        part = _part(outcome)
        more.setdefault(path, []).append(part[1] if part else b"")
    for path, part in found.items():
        if part is not None:
            data = _unpacked(folder / path, b"".join((part[1], *more.get(path, []))), part[0])
            if data is not None:
                yield folder / path, data


def _groups(folder: Path) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for path in _modules(folder):
        group.append(path)
        size += (folder / path).stat().st_size
        if len(group) == _GROUP_MODULES or size > _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _modules(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not _LEFT_OUT & {*relative.parts[:-1]} and relative.parts[0] != DATA and "\n" not in str(relative):
            yield relative.as_posix()


def _line(path: str, start: int) -> bytes:
    return json.dumps({"completion": f"{path}\n{start}"}).encode() + b"\n"


def _part(outcome: Outcome) -> tuple[int, bytes] | None:
    """The packed size of a compiled module, and a part of it; None if the outcome has none."""
    if outcome.score is None or outcome.stdout is None or not 0 < outcome.score < _MOST_BYTES:
        return None
    try:
        return int(outcome.score), base64.b64decode(outcome.stdout, validate=True)
    except ValueError:
        return None


def _unpacked(path: Path, packed: bytes, size: int) -> bytes | None:
    """The byte code of a compiled module; None if it is not for this Python and this source."""
    if len(packed) != size:
        return None
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(packed, _MOST_BYTES)
    except zlib.error:
        return None
    head = importlib.util.MAGIC_NUMBER + b"\1\0\0\0"  # unchecked hash: Python does not compare it with the source again
    if not reader.eof or data[:16] != head + importlib.util.source_hash(path.read_bytes()):
        return None
    return data
