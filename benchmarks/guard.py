"""A guard against slowing down: the sandbox layer against bare Python, as a ratio, in a few seconds.

`python -m benchmarks.guard` exits with 1 where the best of some interleaved rounds is below the floor: the best of each
side, because what else a machine does can only make a round slower.
"""

import sys

from benchmarks import threads, timing
from benchmarks.layer import Layer, cut
from benchmarks.speed import bare
from sandbox.pool import open_pool

FLOOR = 0.8  # two thirds of the 1.2 that is measured, so that slow and busy machines pass
_COUNT = 5_000
_ROUNDS = 7


def measure() -> float:
    """How fast the layer is against bare, regex grader, one core: the best time of each over all rounds."""
    path = threads.file(_COUNT)
    chunks = cut(path)
    with timing.pinned(1), open_pool() as pool:
        layer = Layer(pool, "regex")
        layer.seconds(path, chunks)
        spent = timing.interleaved(
            _ROUNDS, {"bare": lambda: bare("regex", path), "layer": lambda: layer.seconds(path, chunks)}
        )
    return min(spent["bare"]) / min(spent["layer"])


def main() -> int:
    """The exit code."""
    found = measure()
    print(f"the sandbox layer is {found:.2f} times as fast as bare Python; it must be at least {FLOOR:.2f}")
    return 0 if found >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
