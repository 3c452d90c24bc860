"""What a supervisor does ahead, while nobody waits for it."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.session import Session
from sandbox.settings import SandboxSettings
from tests.sandbox.contract.conftest import Grader
from tests.sandbox.test_pool import eventually

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).parents[3]
_SCRATCH = "mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && cd . && "
_LOOK = """
import os, sys
sys.path.insert(0, ".")
from sandbox.guest.scratch import FOLDERS
from sandbox.guest.supervisor import rehearse_supervising

def found():
    return [sorted(os.listdir(folder)) for folder in (*FOLDERS, "/proc/self/fd")]

before = found()
rehearse_supervising()
assert found() == before, (before, found())
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nothing is left")
"""
_REFUSED = """
import sys
sys.path.insert(0, ".")
from sandbox.guest.supervisor import rehearse_supervising
try:
    rehearse_supervising()
except RuntimeError as error:
    print(error)
"""
# Most faults of a supervisor's first grader, and of a template's: 25 and 190 are seen, 265 and 305 without a rehearsal
_SUPERVISOR, _TEMPLATE = 100, 250


def in_namespace(script: str) -> str:
    """In namespaces of its own, whatever is killed by it: the shell's last command becomes pid 1."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", script]
    done = subprocess.run([*command, sys.executable], cwd=_ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_rehearsal_leaves_no_file_no_descriptor_and_no_process() -> None:
    assert in_namespace(f"{_SCRATCH} exec $0 -I -c '{_LOOK}'") == "nothing is left"


def test_it_is_refused_where_others_could_be_killed() -> None:
    assert in_namespace(f"{_SCRATCH} $0 -I -c '{_REFUSED}'; true") == "only pid 1 of a sandbox may supervise"


def faults(pid: int) -> int:
    """The pages that this process has asked the kernel for."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_sandbox_that_waited_has_its_pages_already(is_forked: bool) -> None:
    with closing(Bubblewrap(SandboxSettings(zygote=is_forked))) as backend:
        session = Session(backend.start())
        try:
            session.await_ready()
            pid = session.sandbox.pid
            assert eventually(lambda: children(pid) != [])
            (template,) = children(pid)
            before = settled(pid, template)
            Grader(session).load("async def grade(thread): return len(thread.completion())", "batch").score("four")
            supervisor, loaded = (faults(one) - was for one, was in zip((pid, template), before, strict=True))
        finally:
            session.end()
    assert supervisor <= _SUPERVISOR
    assert loaded <= _TEMPLATE


def settled(*pids: int) -> list[int]:
    """Their faults, once these grow no more."""
    found = [faults(pid) for pid in pids]
    while True:
        time.sleep(0.3)
        again = [faults(pid) for pid in pids]
        if again == found:
            return found
        found = again
