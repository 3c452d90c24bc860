import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.supervised import killed_with_parent
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


STARTS = """
import os, subprocess, sys, threading, time
from runtime.supervised import killed_with_parent
def start():
    print(subprocess.Popen(killed_with_parent(["/bin/sleep", "60"]), env={}, cwd="/").pid, flush=True)
    time.sleep(float(sys.argv[1]))
threading.Thread(target=start, daemon=True).start()
time.sleep(60)
"""


@pytest.mark.parametrize("ended", ["process", "thread"])
def test_a_command_is_killed_with_the_thread_that_starts_it(ended: str) -> None:
    lasts = {"process": "60", "thread": "1"}[ended]
    parent = subprocess.Popen([sys.executable, "-c", STARTS, lasts], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    eventually(lambda: Path(f"/proc/{child}/cmdline").read_bytes() == b"/bin/sleep\x0060\x00", 5.0)
    if ended == "process":
        parent.kill()
    eventually(lambda: not runs(child), 5.0)
    parent.kill()
    parent.wait()


def test_a_command_whose_parent_died_while_it_was_starting_does_not_run(tmp_path: Path) -> None:
    interpreter, *options, _, program, file = killed_with_parent(["/bin/touch", str(tmp_path / "ran")])
    done = subprocess.run([interpreter, *options, "1", program, file], timeout=30)
    assert (done.returncode, list(tmp_path.iterdir())) == (-signal.SIGKILL, [])
