from tests.processes import printed

_START = """
import os
told = os.dup(1)
open_before = len(os.listdir("/proc/self/fd"))
from sandbox.guest.child.thread_decoder import thread_decoder
from sandbox.guest.warmup.dry_run import rehearse
decoder = thread_decoder()
rehearse(decoder)
"""
_COUNTS = """
os.write(told, b"%d %d" % (len(os.listdir("/proc/self/fd")) - open_before, "asyncio" in sys.modules))
print("not told")
"""
_OPENS = """
def refuse(*arguments, **named): raise OSError("a file is opened")
os.open = os.memfd_create = refuse
rehearse(decoder)
os.write(told, b"none")
"""


def test_a_rehearsal_leaves_nothing_open_and_imports_nothing_large() -> None:
    assert printed(_START + _COUNTS) == "0 0"


def test_a_rehearsal_makes_no_file_that_somebody_might_count() -> None:
    assert printed(_START + _OPENS) == "none"
