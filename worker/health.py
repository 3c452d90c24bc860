"""`python -m worker.health`: exits with 0 if the worker can do its work, else with 1, and prints the problem.

It reads the file `GRADEBOX_HEALTH_FILE`, which the worker of this container writes whenever it has reported to Redis:
every 5 s, even while it is busy. It imports only the standard library, because container engines run it every few
seconds.
"""

import os
import sys
from pathlib import Path

from runtime.health_file import problem


def main() -> int:
    """Reads the file. Returns the exit code."""
    path = os.environ.get("GRADEBOX_HEALTH_FILE")
    if not path:
        sys.stderr.write("GRADEBOX_HEALTH_FILE is not set: set it for the worker and for this check\n")
        return 1
    found = problem(Path(path))
    sys.stderr.write(f"worker: {found}\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
