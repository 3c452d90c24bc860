"""What a user would pick instead: the same grader and the same threads, at counts that suit how slow each one is."""

import asyncio
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import gradebox.thread
from benchmarks import bare, threads, timing
from benchmarks.layer import Layer, cut
from benchmarks.results import MICROS, Results
from benchmarks.scale import Scale
from sandbox.pool import Pool, open_pool

ALTERNATIVES = "instead of gradebox"
_IMAGE = "python:3.11-slim"
_ONE = Path(__file__).parent / "one.py"
_THREAD = Path(gradebox.thread.__file__)
_GRADER = threads.FOLDER / "regex.py"
_INSIDE = ("/bench/one.py", "/bench/thread.py", "/bench/regex.py")
_MOUNTS = tuple(zip((_ONE, _THREAD, _GRADER), _INSIDE, strict=True))


def measure(results: Results, scale: Scale) -> None:
    """Interleaved on one core. Each is run for a while and told per completion."""
    lines = threads.file(scale.each).read_bytes().splitlines()
    few = lines[: max(3, scale.each // 4)]
    with timing.pinned(1), open_pool() as pool:
        ways: dict[str, Callable[[], float]] = {
            "bare, one process": lambda: _bare(scale),
            "gradebox, isolation per batch": _layer(pool, scale, "batch"),
            "gradebox, isolation per completion": _layer(pool, scale, "completion"),
            "asyncio.run for each": lambda: _asyncio_run(lines),
            "subprocess for each, no isolation": lambda: _each([sys.executable, "-I", "-S", *_here()], lines),
        }
        if bubblewrap := shutil.which("bwrap"):
            ways["bubblewrap + python for each"] = lambda: _each(_in_bubblewrap(bubblewrap), lines)
        if why := _no_docker():
            results.skipped.append(f"docker run for each: {why}")
        else:
            ways["docker run for each"] = lambda: _each(_in_docker(), few)
        spent = timing.interleaved(3, ways)
    results.skipped.append("llm-sandbox: it is not installed here; docker run for each is what it does underneath")
    for name, micros in spent.items():
        results.add(ALTERNATIVES, name, timing.spread(micros), MICROS, note=_note(scale, name, len(lines), len(few)))


def _note(scale: Scale, name: str, many: int, few: int) -> str:
    if name.startswith("bare") or name.endswith("batch"):
        return f"{scale.threads:,} threads"
    return f"extrapolated from {few if name.startswith('docker') else many} threads, regex grader"


def _bare(scale: Scale) -> float:
    from benchmarks.speed import bare as seconds

    return seconds("regex", threads.file(scale.threads)) / scale.threads * 1e6


def _layer(pool: Pool, scale: Scale, isolation: str) -> Callable[[], float]:
    count = scale.threads if isolation == "batch" else scale.isolated
    path = threads.file(count)
    chunks = cut(path)
    layer = Layer(pool, "regex", "batch" if isolation == "batch" else "completion")
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


def _each(command: Sequence[str], lines: Sequence[bytes]) -> float:
    """Microseconds for one line, each in a process of its own that must print a score."""
    started = perf_counter()
    for line in lines:
        float(subprocess.run(command, input=line, stdout=subprocess.PIPE, check=True).stdout)
    return (perf_counter() - started) / len(lines) * 1e6


def _here() -> list[str]:
    return [str(_ONE), str(_THREAD), str(_GRADER)]


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
