"""`python -m benchmarks` measures everything, prints a table, and writes it with plots to benchmarks/results."""

import argparse
from collections.abc import Callable

from rich.console import Console

from benchmarks import (
    alternatives,
    asking,
    backends,
    batches,
    environments,
    latency,
    machine,
    pages,
    plots,
    report,
    resources,
    speed,
    table,
)
from benchmarks.results import Results
from benchmarks.scale import SCALES, Scale

PARTS: dict[str, Callable[[Results, Scale], None]] = {
    "speed": speed.measure,
    "batches": batches.measure,
    "latency": latency.measure,
    "resources": resources.measure,
    "alternatives": alternatives.measure,
    "backends": backends.measure,
    "environments": environments.measure,
    "asking": asking.measure,
    "pages": pages.measure,
    "table": table.measure,
}


def main() -> None:
    """Runs the requested parts. Writes the results only if it runs all parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes: smaller batches, fewer rounds")
    parser.add_argument("--long", action="store_true", help="memory and CPU up to a million completions")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all by default")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    size = "quick" if asked.quick else "long" if asked.long else "full"
    scale = SCALES[size]
    results = Results(machine.describe(size))
    console = Console(stderr=True)
    for part in asked.parts or PARTS:
        with console.status(f"measuring {part} …"):
            PARTS[part](results, scale)
    report.show(results)
    if not asked.parts:
        report.write(results)
        plots.draw(results)
        console.print(f"written to {report.FOLDER}")


if __name__ == "__main__":
    main()
