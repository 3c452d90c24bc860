import os
import signal
import subprocess
import sys
import time

import pytest

from tests.processes import runs
from tests.waiting import eventually

CHILD = """
import time
from runtime.supervised import stop_with_parent
stop_with_parent()
print("up", flush=True)
time.sleep(60)
"""
PARENT = f"""
import os, subprocess, sys
supervised = {{"GRADEBOX_SUPERVISED": str(os.getpid()) if sys.argv[1] == "supervised" else ""}}
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=os.environ | supervised)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize(("supervised", "ends"), [("supervised", True), ("alone", False)])
def test_a_supervised_process_ends_with_its_parent(supervised: str, ends: bool) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, supervised], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    if ends:
        eventually(lambda: not runs(child), 2.0)
    else:
        time.sleep(0.5)
        assert runs(child)
        os.kill(child, signal.SIGKILL)


def test_one_whose_parent_died_while_it_was_starting_ends_too() -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    environment = os.environ | {"GRADEBOX_SUPERVISED": gone.stdout.strip()}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, timeout=30)
    assert (child.returncode, child.stdout) == (-signal.SIGTERM, b"")
