"""Tests of what the processes of the service load before they serve."""

import subprocess
import sys

UNUSED = ("rich", "pygments", "pydantic.v1")
SLOW = ("scipy", "numpy", "aiohttp")  # loaded by the program for statistics, and by the first ask


def test_what_the_service_does_not_use_or_not_yet_is_not_loaded() -> None:
    look = f"import sys, api.__main__; print([name for name in {UNUSED + SLOW} if sys.modules.get(name)])"
    assert subprocess.run([sys.executable, "-c", look], stdout=subprocess.PIPE, check=True).stdout == b"[]\n"
    look = f"import sys, worker.__main__; print([name for name in {SLOW} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", look], stdout=subprocess.PIPE, check=True).stdout == b"[]\n"
