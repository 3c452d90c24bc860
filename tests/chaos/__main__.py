"""Kills random processes while batches are scored. A seed repeats the choices and pauses, not the kernel's timing."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--completions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", type=Path, help="where the service keeps its data; it stays [a temporary one]")
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="gradebox-chaos-"))
    print(f"seed {chosen.seed}, data in {folder}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    report = run(Plan(chosen.seed, chosen.kills, chosen.completions), folder)
    print(report)
    return int(bool(report.lost or report.duplicated or report.changed))


if __name__ == "__main__":
    sys.exit(main())
