import subprocess
import sys

_REHEARSE = """
import os, sys
sys.path.insert(0, ".")
told = os.dup(1)
open_before = len(os.listdir("/proc/self/fd"))
from sandbox.guest.child.thread_decoder import thread_decoder
from sandbox.guest.warmup.dry_run import rehearse
decoder = thread_decoder()
rehearse(decoder)
os.write(told, b"%d %d" % (len(os.listdir("/proc/self/fd")) - open_before, "asyncio" in sys.modules))
print("not told")
"""


def test_a_rehearsal_leaves_nothing_open_and_imports_nothing_large() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", _REHEARSE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0 0", "")


_OPENS = """
import os, sys
sys.path.insert(0, ".")
told = os.dup(1)
from sandbox.guest.child.thread_decoder import thread_decoder
from sandbox.guest.warmup.dry_run import rehearse
decoder = thread_decoder()
rehearse(decoder)
def refuse(*arguments, **named): raise OSError("a file is opened")
os.open = os.memfd_create = refuse
rehearse(decoder)
os.write(told, b"none")
"""


def test_a_rehearsal_makes_no_file_that_somebody_might_count() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", _OPENS], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("none", "")
