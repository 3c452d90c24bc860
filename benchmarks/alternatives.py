"""Alternatives to gradebox, with the same grader and threads. The slower one is, the fewer threads it grades."""

import asyncio
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

import gradebox.thread
import gradebox.thread_forms
from benchmarks import bare, containers, speed, threads, timing
from benchmarks.layer import Layer
from benchmarks.results import MICROS, Results
from benchmarks.scale import Scale
from sandbox.pool.pool import Pool, open_pool

ALTERNATIVES = "instead of gradebox"
_ROUNDS = 3
_BATCH = 4_000
_PROGRAM = Path(__file__).parent / "lines.py"
_FILES = {
    _PROGRAM: "/bench/lines.py",
    Path(gradebox.thread.__file__): "/bench/thread.py",
    Path(gradebox.thread_forms.__file__): "/bench/thread_forms.py",
    threads.FOLDER / "regex.py": "/bench/regex.py",
}
# The usual use of llm-sandbox: the graded lines are part of the code.
_CODE = """
import io, runpy, sys
sys.argv = {files!r}
sys.stdin = io.TextIOWrapper(io.BytesIO({lines!r}))
runpy.run_path(sys.argv[0])
"""

Grade = Callable[[bytes], list[float]]  # lines to scores


class Way(NamedTuple):
    """A way to grade: a function that measures it, in microseconds per completion, and a note on its figure."""

    micros: Callable[[], float]
    note: str


def measure(results: Results, scale: Scale) -> None:
    """Measures on one core, except containers: their engine starts them on any core."""
    with timing.pinned(1):
        with open_pool() as pool:
            _compare(results, _quick(pool, scale))
        with ways(results) as slow:
            _compare(results, _slow(slow, scale))


def _compare(results: Results, compared: dict[str, Way]) -> None:
    """Times these ways interleaved. Ways of microseconds run apart, because ways of milliseconds evict caches."""
    spent = timing.interleaved(_ROUNDS, {name: way.micros for name, way in compared.items()})
    for name, micros in spent.items():
        results.add(ALTERNATIVES, name, timing.spread(micros), MICROS, note=compared[name].note)


def _quick(pool: Pool, scale: Scale) -> dict[str, Way]:
    each = _lines()[: scale.each]
    return {
        "gradebox, isolation per batch": Way(_layer(pool, scale.threads, "batch"), f"{scale.threads:,} threads"),
        "gradebox, isolation per completion": Way(
            _layer(pool, scale.isolated, "completion"), f"{scale.isolated:,} threads"
        ),
        "bare, one process": Way(lambda: _bare(scale), f"{scale.threads:,} threads"),
        "asyncio.run for each": Way(lambda: _asyncio_run(each), _extrapolated(each)),
    }


def _slow(slow: dict[str, Grade], scale: Scale) -> dict[str, Way]:
    lines = _lines()
    few, compared = lines[: scale.few], {}
    for name, grade in slow.items():
        compared[f"{name} for each"] = Way(partial(_timed, grade, few), _extrapolated(few))
        compared[f"{name} per batch"] = Way(partial(_timed, grade, [b"".join(lines)]), f"{_BATCH:,} threads at once")
    return compared


@contextmanager
def ways(results: Results) -> Iterator[dict[str, Grade]]:
    """The ways that start a process or a container for each input, if they are available here."""
    files = list(_FILES.values())
    python = [containers.PYTHON, "-I", "-S"]
    found: dict[str, Grade] = {"subprocess, no isolation,": partial(_process, [*python, *map(str, _FILES)])}
    if bubblewrap := shutil.which("bwrap"):
        found["bubblewrap + python"] = partial(_process, [*_in_bubblewrap(bubblewrap), *python, *files])
    else:
        results.skipped.append("bubblewrap + python: bubblewrap is not installed here")
    with ExitStack() as stack:
        if why := containers.why_none():
            results.skipped.append(f"docker run, llm-sandbox: {why}")
        else:
            stack.enter_context(containers.image())
            found["docker run"] = partial(_process, [*containers.run(_FILES), *python, *files])
            found["llm-sandbox"] = partial(_llm_sandbox, stack.enter_context(containers.llm_sandbox(_FILES)))
        yield found


def _lines() -> list[bytes]:
    return threads.file(_BATCH).read_bytes().splitlines(keepends=True)


def _extrapolated(lines: Sequence[bytes]) -> str:
    return f"extrapolated from {len(lines)} threads"


def _bare(scale: Scale) -> float:
    return speed.bare("regex", threads.file(scale.threads)) / scale.threads * 1e6


def _layer(pool: Pool, count: int, isolation: Literal["batch", "completion"]) -> Callable[[], float]:
    layer = Layer(pool, "regex", threads.file(count), isolation)
    return lambda: layer.seconds() / count * 1e6


def _asyncio_run(lines: Sequence[bytes]) -> float:
    grade = bare.load("regex")

    async def one(line: bytes) -> float:
        return await grade(bare.to_thread(json.loads(line)))

    started = perf_counter()
    for line in lines:
        asyncio.run(one(line))
    return (perf_counter() - started) / len(lines) * 1e6


def _timed(grade: Grade, inputs: Sequence[bytes]) -> float:
    """Microseconds per line. Raises RuntimeError if a score is missing."""
    started = perf_counter()
    graded = sum(len(grade(lines)) for lines in inputs)
    seconds = perf_counter() - started
    if graded != sum(lines.count(b"\n") for lines in inputs):
        raise RuntimeError(f"there are {graded} scores")
    return seconds / graded * 1e6


def _process(command: Sequence[str], lines: bytes) -> list[float]:
    return _scores(subprocess.run(command, input=lines, stdout=subprocess.PIPE, check=True).stdout.decode())


def _llm_sandbox(said: Callable[[str], str], lines: bytes) -> list[float]:
    return _scores(said(_CODE.format(files=list(_FILES.values()), lines=lines)))


def _scores(told: str) -> list[float]:
    return list(map(float, told.split()))


def _in_bubblewrap(program: str) -> list[str]:
    """The options of services that start a jail for each run: all namespaces, the host's system read-only."""
    folders = ["/usr", "/lib", "/lib64", "/bin", "/etc", sys.base_prefix]
    binds = [("--ro-bind", folder, folder) for folder in folders if Path(folder).exists()]
    binds += [("--ro-bind", str(source), inside) for source, inside in _FILES.items()]
    isolation = ["--unshare-all", "--die-with-parent", "--tmpfs", "/tmp", "--clearenv"]
    return [program, *itertools.chain(*binds), *isolation, "--"]
