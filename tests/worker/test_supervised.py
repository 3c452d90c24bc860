import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = """
import time
from worker.supervised import stop_with_parent
stop_with_parent()
print("up", flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize(("supervised", "ends"), [("1", True), ("", False)])
def test_a_supervised_process_ends_with_its_parent(supervised: str, ends: bool) -> None:
    environment = {**os.environ, "GRADEBOX_SUPERVISED": supervised}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environment, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "up\n"
    parent.kill()
    parent.wait()
    try:
        assert ended(child) == ends
    finally:
        if not ends:
            os.kill(child, signal.SIGKILL)


def ended(pid: int) -> bool:
    for _ in range(40):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.025)
    return False
