"""Looks at processes, and runs code in a new interpreter."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]


def runs(pid: int) -> bool:
    """Whether this process exists and is no zombie."""
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def printed(source: str) -> str:
    """What a new interpreter prints that can import this repository and has imported little."""
    start = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    command = [sys.executable, "-I", "-c", start + source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
