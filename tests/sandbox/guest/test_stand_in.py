"""What a supervisor does ahead, while nobody waits for it."""

import subprocess
import sys
import time
from ast import literal_eval
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
_ELSEWHERE = """
import sys
sys.path.insert(0, ".")
from sandbox.guest import supervisor
supervisor.Supervisor.rehearse = None
supervisor.rehearse_supervising()
print("nothing was done")
"""
# Most faults of a supervisor's first grader, and of a template's: 25 and 190 are seen, 265 and 305 without a rehearsal
_SUPERVISOR, _TEMPLATE = 100, 250

# When garbage is collected while a module body runs, and which modules and functions there are by the grader's name. It
# imports nothing that is not there in any case.
_FINDS = """
import gc, sys
from gradebox import Score

moments, kept = [], []
gc.callbacks.append(lambda phase, info: moments.append([phase, info["generation"], len(kept)]))
for number in range(60_000):  # CPython 3.13 collects half as often
    kept.append([number])
gc.callbacks.clear()
gc.unfreeze()
named = [one.__name__ for one in gc.get_objects() if getattr(one, "__module__", "") == __name__]
patterns = len(sys.modules["re"]._cache)
modules = [one.__name__ for one in gc.get_objects() if type(one) is type(sys) and one.__name__ == __name__]

async def grade(thread):
    return Score(1.0, reason=repr([moments, named, modules, patterns]))
"""


def in_namespace(program: str, *isolation: str) -> str:
    """What it prints in namespaces of its own, with empty scratch folders: nobody else is hit by what it kills."""
    folders = ["--dev-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    here = ["--ro-bind", str(_ROOT), str(_ROOT), "--chdir", str(_ROOT)]  # it may lie below a scratch folder
    command = ["bwrap", "--unshare-pid", *isolation, *folders, *here, "--", sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_rehearsal_leaves_no_file_no_descriptor_and_no_process() -> None:
    assert in_namespace(_LOOK, "--as-pid-1") == "nothing is left"


def test_nothing_is_done_where_others_could_be_killed() -> None:
    assert in_namespace(_ELSEWHERE) == "nothing was done"


def faults(pid: int) -> int:
    """The pages that this process has asked the kernel for."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


def with_template(supervisor: int) -> tuple[int, int]:
    """The supervisor and its template, once there is one."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    assert eventually(lambda: children.read_text() != "")
    (template,) = map(int, children.read_text().split())
    return supervisor, template


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_sandbox_that_waited_has_its_pages_already(is_forked: bool) -> None:
    with closing(Bubblewrap(SandboxSettings(zygote=is_forked))) as backend:
        session = Session(backend.start())
        try:
            session.await_ready()
            pids = with_template(session.sandbox.pid)
            before = settled(*pids)
            Grader(session).load("async def grade(thread): return len(thread.completion())", "batch").score("four")
            supervisor, loaded = (faults(one) - was for one, was in zip(pids, before, strict=True))
        finally:
            session.end()
    assert supervisor <= _SUPERVISOR
    assert loaded <= _TEMPLATE


def test_a_grader_finds_the_same_whether_its_sandbox_waited_or_not() -> None:
    found = []
    for is_forked, waits in ((True, True), (True, False), (False, True)):
        with closing(Bubblewrap(SandboxSettings(zygote=is_forked))) as backend:
            session = Session(backend.start())
            try:
                if waits:
                    session.await_ready()
                    settled(*with_template(session.sandbox.pid))
                (outcome,) = Grader(session).load(_FINDS, "batch").score("four")
                found.append(literal_eval(outcome.reason or ""))
            finally:
                session.end()
    moments, named, modules, patterns = found[0]
    assert found == [found[0]] * 3
    assert [generation for phase, generation, _ in moments if phase == "start"].count(0) > 20
    assert named == ["<listcomp>" if sys.version_info < (3, 12) else "<module>"]  # the code that looks
    assert modules == ["grader"]
    assert patterns == 0


def settled(*pids: int) -> list[int]:
    """Their faults, once these grow no more."""
    found = [faults(pid) for pid in pids]
    while True:
        time.sleep(0.3)
        again = [faults(pid) for pid in pids]
        if again == found:
            return found
        found = again
