"""What a user would pick instead: the same grader and the same threads, at counts that suit how slow each one is."""

import asyncio
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

import gradebox.thread
from benchmarks import bare, speed, threads, timing
from benchmarks.layer import Layer, cut
from benchmarks.results import MICROS, Results
from benchmarks.scale import Scale
from sandbox.pool import Pool, open_pool

ALTERNATIVES = "instead of gradebox"
_BATCH = 4_000
_IMAGE = "python:3.11-slim"
_LINES = Path(__file__).parent / "lines.py"
_THREAD = Path(gradebox.thread.__file__)
_GRADER = threads.FOLDER / "regex.py"
_INSIDE = ("/bench/lines.py", "/bench/thread.py", "/bench/regex.py")
_MOUNTS = tuple(zip((_LINES, _THREAD, _GRADER), _INSIDE, strict=True))


def measure(results: Results, scale: Scale) -> None:
    """Interleaved on one core. Each is run for a while and told per completion."""
    with timing.pinned(1), open_pool() as pool:
        ways = _ours(pool, scale) | _others(results, scale)
        spent = timing.interleaved(3, {name: way.micros for name, way in ways.items()})
    results.skipped.append("llm-sandbox: it is not installed here; docker run for each is what it does underneath")
    for name, micros in spent.items():
        results.add(ALTERNATIVES, name, timing.spread(micros), MICROS, note=ways[name].note)


class Way(NamedTuple):
    """One way to grade, and what to know of its figure."""

    micros: Callable[[], float]
    note: str


def _ours(pool: Pool, scale: Scale) -> dict[str, Way]:
    return {
        "gradebox, isolation per batch": Way(_layer(pool, scale.threads, "batch"), f"{scale.threads:,} threads"),
        "gradebox, isolation per completion": Way(
            _layer(pool, scale.isolated, "completion"), f"{scale.isolated:,} threads"
        ),
    }


def _others(results: Results, scale: Scale) -> dict[str, Way]:
    lines = threads.file(_BATCH).read_bytes().splitlines(keepends=True)
    each, few = lines[: scale.each], lines[: max(3, scale.each // 4)]
    ways = {
        "bare, one process": Way(lambda: _bare(scale), f"{scale.threads:,} threads"),
        "asyncio.run for each": Way(lambda: _asyncio_run(each), _extrapolated(each)),
    }
    commands = {"subprocess, no isolation,": (here(), each)}
    if bubblewrap := shutil.which("bwrap"):
        commands["bubblewrap + python"] = _in_bubblewrap(bubblewrap), each
    if why := _no_docker():
        results.skipped.append(f"docker run: {why}")
    else:
        commands["docker run"] = _in_docker(), few
    for name, (command, some) in commands.items():
        ways[f"{name} for each"] = Way(partial(_each, command, some), _extrapolated(some))
        ways[f"{name} per batch"] = Way(partial(_each, command, [b"".join(lines)]), f"{_BATCH:,} threads at once")
    return ways


def _extrapolated(lines: Sequence[bytes]) -> str:
    return f"extrapolated from {len(lines)} threads"


def _bare(scale: Scale) -> float:
    return speed.bare("regex", threads.file(scale.threads)) / scale.threads * 1e6


def _layer(pool: Pool, count: int, isolation: Literal["batch", "completion"]) -> Callable[[], float]:
    path = threads.file(count)
    chunks, layer = cut(path), Layer(pool, "regex", isolation)
    layer.seconds(path, chunks)
    return lambda: layer.seconds(path, chunks) / count * 1e6


def _asyncio_run(lines: Sequence[bytes]) -> float:
    grade = bare.load("regex")

    async def one(line: bytes) -> float:
        return await grade(bare.to_thread(json.loads(line)))

    started = perf_counter()
    for line in lines:
        asyncio.run(one(line))
    return (perf_counter() - started) / len(lines) * 1e6


def _each(command: Sequence[str], inputs: Sequence[bytes]) -> float:
    """Microseconds a line; each input goes to a process of its own, which must print a score for each of its lines."""
    started, graded = perf_counter(), 0
    for lines in inputs:
        told = subprocess.run(command, input=lines, stdout=subprocess.PIPE, check=True).stdout.split()
        graded += len(list(map(float, told)))
    if graded != sum(lines.count(b"\n") for lines in inputs):
        raise RuntimeError(f"{command[0]} gave {graded} scores")
    return (perf_counter() - started) / graded * 1e6


def here() -> list[str]:
    """The command that grades lines without any isolation."""
    return [sys.executable, "-I", "-S", str(_LINES), str(_THREAD), str(_GRADER)]


def _in_bubblewrap(program: str) -> list[str]:
    """As services that start a jail for each run do it: all namespaces, the host's system read-only."""
    folders = ["/usr", "/lib", "/lib64", "/bin", "/etc", sys.base_prefix]
    binds = [("--ro-bind", folder, folder) for folder in folders if Path(folder).exists()]
    binds += [("--ro-bind", str(source), inside) for source, inside in _MOUNTS]
    python = str(Path(sys.executable).resolve())
    isolation = ["--unshare-all", "--die-with-parent", "--tmpfs", "/tmp", "--clearenv"]
    return [program, *itertools.chain(*binds), *isolation, "--", python, "-I", "-S", *_INSIDE]


def _in_docker() -> list[str]:
    mounts = itertools.chain(*(("-v", f"{source}:{inside}:ro") for source, inside in _MOUNTS))
    return ["docker", "run", "--rm", "-i", "--network", "none", *mounts, _IMAGE, "python", "-I", "-S", *_INSIDE]


def _no_docker() -> str:
    """Why there is nothing to compare with; empty where there is."""
    if shutil.which("docker") is None:
        return "Docker is not installed here"
    if _fails("docker", "info"):
        return "no Docker daemon answers here"
    return (
        f"the image {_IMAGE} is not here: `docker pull {_IMAGE}`"
        if _fails("docker", "image", "inspect", _IMAGE)
        else ""
    )


def _fails(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=20).returncode != 0
