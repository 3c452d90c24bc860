import subprocess
import sys

_REHEARSE = """
import os, sys
sys.path.insert(0, ".")
told = os.dup(1)
open_before = len(os.listdir("/proc/self/fd"))
import json
from sandbox.guest.rehearsal import rehearse
rehearse(json.loads)
os.write(told, b"%d %d" % (len(os.listdir("/proc/self/fd")) - open_before, "asyncio" in sys.modules))
print("not told")
"""


def test_a_rehearsal_leaves_nothing_open_and_imports_nothing_large() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", _REHEARSE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0 0", "")
