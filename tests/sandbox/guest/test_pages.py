"""In processes of their own: what is rearranged is the memory of the process itself."""

import subprocess
import sys

import pytest

_START = """
import sys
sys.path.insert(0, ".")
from sandbox.guest import pages
"""


def _told(source: str) -> str:
    command = [sys.executable, "-I", "-c", _START + source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("size", [16, 32, 64, 512])
def test_what_is_made_after_the_gaps_are_filled_lies_side_by_side(size: int) -> None:
    make = {16: "object()", 32: "float(number)"}.get(size, f"bytes({size - 33})")
    source = f"""
scattered = [{make} for number in range(700)]
del scattered[::7]
pages.fill_gaps()
made = [{make} for number in range(4)]
places = sorted(map(id, made))
print(places[-1] - places[0] <= 8 * {size})
"""
    assert _told(source) == "True"


def test_as_much_memory_as_there_may_be_of_gaps_is_taken_and_no_more() -> None:
    source = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(3): pages.fill_gaps()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10)
"""
    assert _told(source) == "True"


def test_where_memory_is_short_nothing_is_taken() -> None:
    source = """
import resource
size = 8 << 20
held = bytearray(size)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used, used))
small = []
try:
    while True: small.append(object())
except MemoryError: pass
pages.fill_gaps()
print(len(pages._taken))
"""
    assert _told(source) == "0"
