"""Tests of what an API process loads before it serves."""

import subprocess
import sys


def test_nothing_is_loaded_for_the_colours_of_logs() -> None:
    program = "import sys, api.__main__; print([name for name in ('rich', 'pygments') if sys.modules.get(name)])"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout == b"[]\n"
