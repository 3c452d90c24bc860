"""The sandbox layer against bare Python, and completion isolation."""

import subprocess
import sys
from pathlib import Path

from benchmarks import threads, timing
from benchmarks.layer import Layer
from benchmarks.results import BARE, MICROS, RATE, Results
from benchmarks.scale import Scale
from sandbox.pool.pool import Pool, open_pool

LAYER, ISOLATED = "sandbox layer", "completion isolation"
_SLOW = "difflib_ratio"
_TARGETS = {"exact_match": 1.10, "regex": 1.10, "json_shape": 1.10, _SLOW: 0.98, "regex_reason": 0.9}
_ISOLATED_TARGET = 1500


def bare(grader: str, path: Path) -> float:
    """The seconds that bare Python takes, in a new process."""
    command = [sys.executable, "-m", "benchmarks.bare", grader, str(path)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def measure(results: Results, scale: Scale) -> None:
    """Measures on one core."""
    with timing.pinned(1), open_pool() as pool:
        for grader in threads.GRADERS:
            _against_bare(results, scale, pool, grader, grader)
        for grader, silent in threads.SAYING.items():
            _against_bare(results, scale, pool, grader, silent)
        _isolated(results, scale, pool)


def _against_bare(results: Results, scale: Scale, pool: Pool, grader: str, silent: str) -> None:
    """Compares with bare Python that runs `silent`: a grader with the same scores, without reasons or prints."""
    count = scale.slow_threads if grader == _SLOW else scale.threads
    path = threads.file(count, grader)
    layer = Layer(pool, grader, path)
    spent = timing.interleaved(scale.rounds, {"bare": lambda: bare(silent, path), "layer": layer.seconds})
    note = f"{count:,} threads; bare {timing.spread(spent['bare']).median / count * 1e6:.1f} µs a completion"
    found = timing.ratio(spent["bare"], spent["layer"])
    results.add(LAYER, grader, found, BARE, target=_TARGETS.get(grader), note=note)
    for name, seconds in spent.items():
        results.add("per completion", f"{name}: {grader}", timing.spread(seconds).times(1e6 / count), MICROS)


def _isolated(results: Results, scale: Scale, pool: Pool) -> None:
    layer = Layer(pool, "regex", threads.file(scale.isolated), "completion")
    rates = [scale.isolated / layer.seconds() for _ in range(min(scale.rounds, 5))]
    note = f"{scale.isolated:,} threads, a fork for each"
    results.add(ISOLATED, "completions a second a core", timing.spread(rates), RATE, target=_ISOLATED_TARGET, note=note)
