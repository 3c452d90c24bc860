"""Tests of what an API process loads before it serves."""

import subprocess
import sys


def test_what_the_service_does_not_use_is_not_loaded() -> None:
    names = ("rich", "pygments", "pydantic.v1")
    program = f"import sys, api.__main__; print([name for name in {names} if sys.modules.get(name)])"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout == b"[]\n"
