"""A check, in a few seconds, that the sandbox layer has not become slower relative to bare Python.

`python -m benchmarks.guard` exits with 1 if the ratio is below the floor. It compares the best of interleaved rounds of
each side, because other work of the machine can only make a round slower.
"""

import sys

from benchmarks import threads, timing
from benchmarks.layer import Layer
from benchmarks.speed import bare
from sandbox.pool.pool import open_pool

FLOOR = 0.8  # two thirds of the measured 1.2, so that slow and busy machines pass
_COUNT = 5_000
_ROUNDS = 7


def measure() -> float:
    """The speed of the layer relative to bare, from the best time of each: regex grader, one core."""
    path = threads.file(_COUNT)
    with timing.pinned(1), open_pool() as pool:
        layer = Layer(pool, "regex", path)
        spent = timing.interleaved(_ROUNDS, {"bare": lambda: bare("regex", path), "layer": layer.seconds})
    return min(spent["bare"]) / min(spent["layer"])


def main() -> int:
    """Prints the ratio and returns the exit code."""
    found = measure()
    print(f"the sandbox layer is {found:.2f} times as fast as bare Python; it must be at least {FLOOR:.2f}")
    return 0 if found >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
