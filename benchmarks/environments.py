"""The first score of a grader that imports sympy, against `python -c "import sympy"` with the same files."""

import os
import subprocess
from itertools import count
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.results import MILLIS, TIMES, Results
from benchmarks.scale import Scale
from sandbox import image
from sandbox.grader_source import GraderSource
from sandbox.limits import ENVIRONMENT_MEMORY_MB
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from worker.environments.environment_cache import environment_of
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed

COLD = "packages of an environment"
_PACKAGES = ("sympy==1.14",)
_SOURCE = """
import sympy

async def grade(thread):
    return float(sympy.Rational(thread.completion()) == 2)
"""
_LINE = b'{"completion": "4/2"}'


def measure(results: Results, scale: Scale) -> None:
    """Starts a sandbox, loads the grader and scores one completion, several times, on one core."""
    if not scale.cold:
        return
    with timing.pinned(1), open_pool(SandboxSettings(warm_sandboxes=0, loaded_sandboxes=0)) as pool:
        try:
            sha256 = environment_of(_PACKAGES, None, pool, EnvironmentSettings(), lambda _: None).sha256
        except BuildFailed as failed:
            results.skipped.append(f"environments: {str(failed)[:200]}")
            return
        folder = pool.environments.find(sha256)
        numbers = count()
        runs = {"cold": lambda: _first_score(pool, sha256, next(numbers)), "bare": lambda: _import(folder)}
        timing.interleaved(2, runs)
        spent = timing.interleaved(scale.cold, runs)
    found = {name: timing.spread(values).times(1000) for name, values in spent.items()}
    note = f"{scale.cold} each, interleaved; both read byte code that is compiled ahead"
    ratio = timing.ratio(spent["cold"], spent["bare"])
    results.add(COLD, "first score over `import sympy`", ratio, TIMES, target=1.3, at_most=True, note=note)
    results.add(COLD, "first score with sympy, cold", found["cold"], MILLIS)
    results.add(COLD, '`python -c "import sympy"`', found["bare"], MILLIS)


def _first_score(pool: Pool, sha256: str, number: int) -> float:
    """Seconds of a score. `number` makes the source a new one, which no sandbox has loaded."""
    source = GraderSource(f"{_SOURCE}\n# {number}\n", "batch", memory_mb=ENVIRONMENT_MEMORY_MB, environment=sha256)
    started = perf_counter()
    with pool.grading(source) as grading:
        (outcome,) = grading.score(_LINE, 0, "cold@1")
        spent = perf_counter() - started
    assert outcome.score == 1.0, outcome
    return spent


def _import(folder: Path) -> float:
    command = [str(image.interpreter()), "-c", "import sympy"]
    environment = {"PATH": os.defpath, "PYTHONPATH": str(folder)}
    return timing.seconds(lambda: subprocess.run(command, env=environment, check=True))
