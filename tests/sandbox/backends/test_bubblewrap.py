"""The zygote: what is forked from it is what would have been started anew, and nothing goes from one to the next."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.bubblewrap import Bubblewrap, BubblewrapSandbox, zygote
from sandbox.backends.bubblewrap.first import First
from sandbox.errors import InfrastructureError
from sandbox.session import Ended, Session
from sandbox.settings import SandboxSettings
from tests.sandbox.contract.conftest import Grader
from tests.sandbox.test_pool import eventually

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).parents[3]
# Differs from one sandbox to the next, or from one moment to the next, or is memory
_ITS_OWN = {"Pid", "PPid", "Tgid", "NStgid", "NSpid", "NSpgid", "NSsid", "FDSize", "Uid", "Gid"}
_COUNTED = ("Vm", "Rss", "Cpus_", "Mems_", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
# What code finds out about where it runs
_SEEN = {
    "signal handlers": "{n: str(signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)}",
    "limits": "[resource.getrlimit(number) for number in range(16)]",
    "files": "[sorted(os.listdir(folder)) for folder in ('/usr', '/usr/lib', '/usr/lib/gradebox', '/tmp', '/dev/shm')]",
    "user": "[os.getresuid(), os.getresgid(), os.getgroups(), os.getppid(), os.getsid(0), os.getpid()]",
    "environment": "[os.getcwd(), sorted(os.environ.items()), os.umask(0o022), os.uname()[1]]",
    "interpreter": "[list(sys.flags), sys.path, sys.executable, sys.prefix, sys.getswitchinterval()]",
    "finders": "str(sys.meta_path)",
    "collector": "[gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)]",
    "threads": "[thread.name for thread in threading.enumerate()]",
    "modules": "[sys.modules[name].__spec__.origin for name in ('os', 'gradebox.thread', 'sandbox.guest.child')]",
}
_EXECUTES = """
import json
from gradebox import Score

async def grade(thread):
    names = {}
    exec(thread.completion(), names)
    return Score(1.0, reason=json.dumps(names.get("answer")))
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[Bubblewrap]:
    with closing(Bubblewrap(SandboxSettings())) as made:
        assert made.zygote is not None, made.why_no_zygote
        yield made


@pytest.fixture(scope="module")
def executing() -> Iterator[Bubblewrap]:
    with closing(Bubblewrap(SandboxSettings(zygote=False))) as made:
        assert made.zygote is None
        yield made


def _told(sandbox: BubblewrapSandbox) -> dict[str, str]:
    """What the kernel tells of its pid 1, as far as it should be the same for all."""
    proc = Path(f"/proc/{sandbox.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    told = {name: value for name, value in status.items() if name not in _ITS_OWN and not name.startswith(_COUNTED)}
    mounts = [line.split(" - ")[0].split(" ", 3)[3] for line in (proc / "mountinfo").read_text().splitlines()]
    if os.geteuid() == 0:  # nobody else may look into one that hides itself
        told["descriptors"] = str(sorted(_descriptors(sandbox.pid).items()))
    return {
        **told,
        "mounts": "\n".join(mounts),
        "limits": (proc / "limits").read_text(),
        "oom": (proc / "oom_score_adj").read_text(),
        "folder": str((proc / "cwd").readlink()),
        "program": str((proc / "exe").readlink()),
        "time": str((proc / "ns" / "time").readlink()),
        "processes": str(len((proc / "task" / str(sandbox.pid) / "children").read_text().split())),
        "uids": str(len(set(status["Uid"].split() + status["Gid"].split()))),
    }


def _descriptors(pid: int) -> dict[str, str]:
    return {one.name: str(one.readlink()).partition(":")[0] for one in Path(f"/proc/{pid}/fd").iterdir()}


def _settled(sandbox: BubblewrapSandbox) -> dict[str, str]:
    Session(sandbox).await_ready()
    assert eventually(lambda: Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text() != "")
    return _told(sandbox)


def test_what_is_forked_is_to_the_kernel_what_would_have_been_started(
    forking: Bubblewrap, executing: Bubblewrap
) -> None:
    sandboxes = [made.start() for made in (forking, executing)]
    try:
        forked, executed = map(_settled, sandboxes)
        assert forked == executed
        assert (forked["CapBnd"].strip(), forked["NoNewPrivs"].strip(), forked["Seccomp"].strip()) == (
            "0" * 16,
            "1",
            "2",
        )
    finally:
        for sandbox in sandboxes:
            sandbox.end()


def test_a_completion_finds_the_same_in_it(forking: Bubblewrap, executing: Bubblewrap) -> None:
    found = []
    for made in (forking, executing):
        session = Session(made.start())
        grader = Grader(session).load()
        asked = "import gc, os, resource, signal, sys, threading\nanswer = "
        found.append({name: grader.ask(asked + expression) for name, expression in _SEEN.items()})
        session.end()
    assert found[0] == found[1]


def test_each_has_namespaces_of_its_own(forking: Bubblewrap) -> None:
    sandboxes = [forking.start() for _ in range(3)]
    assert forking.zygote is not None
    pids = ["self", forking.zygote.pid, *(sandbox.pid for sandbox in sandboxes)]
    for name in ("mnt", "net", "ipc", "uts", "pid"):
        assert len({Path(f"/proc/{pid}/ns/{name}").readlink() for pid in pids}) == 5, name
    inside = {Path(f"/proc/{pid}/ns/user").readlink() for pid in pids}
    assert len(inside) == (4 if os.geteuid() == 0 else 5)  # root's zygote becomes who each sandbox is to be
    for sandbox in sandboxes:
        sandbox.end()


def test_one_grader_changes_nothing_for_the_next(forking: Bubblewrap) -> None:
    """All that Python keeps for a whole process, and the heap itself: a copy of the zygote's, and a copy alone."""
    taint = (
        "import builtins, ctypes, json, os, sys\n"
        "json.tainted = builtins.tainted = sys.tainted = True\n"
        "os.environ['TAINTED'] = '1'\n"
        "open('/tmp/tainted', 'w').close()\n"
        "open('/dev/shm/tainted', 'w').close()\n"
        "kept = [b'TAINTED-' * 1000 for _ in range(100)]\n"
        "answer = [hasattr(json, 'tainted'), os.path.exists('/tmp/tainted')]\n"
    )
    look = (
        "import builtins, json, os, sys\n"
        "answer = [hasattr(one, 'tainted') for one in (json, builtins, sys)] + ['TAINTED' in os.environ]\n"
        "answer += [os.path.exists('/tmp/tainted'), os.path.exists('/dev/shm/tainted')]\n"
    )
    first, second = Session(forking.start()), Session(forking.start())
    module = "import json, builtins\njson.body = builtins.body = True\n"
    grader = Grader(first).load(module + _EXECUTES)
    assert grader.ask(taint) == [True, True]
    try:
        for session in (second, third := Session(forking.start())):
            assert Grader(session).load().ask(look) == [False] * 6
            assert session.sandbox.pid != first.sandbox.pid
    finally:
        for session in (first, second, third):
            session.end()


def test_the_zygote_hears_and_keeps_nothing_of_what_a_sandbox_is_for(forking: Bubblewrap) -> None:
    """Nothing that a grader or a completion says is anywhere in its memory, and no sandbox's descriptor is kept."""
    assert forking.zygote is not None
    session = Session(forking.start())
    secret = "n0b0dy-0utside-kn0ws"
    assert Grader(session).load(f"SECRET = {secret!r}\n{_EXECUTES}").ask(f"answer = {secret!r}") == secret
    if os.geteuid() == 0:
        memory = _memory(forking.zygote.pid)
        assert b"sandbox.guest.supervisor" in memory
        assert secret.encode() not in memory
        assert set(_descriptors(forking.zygote.pid)) == {"0", "1", "2", "3"}
    session.end()


def _memory(pid: int) -> bytes:
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, access, *_ = line.split()
            if access.startswith("rw"):
                start, end = (int(part, 16) for part in span.split("-"))
                memory.seek(start)
                found.append(memory.read(end - start))
    return b"".join(found)


_KILLS = """
import os
for pid in [*range(2, 500), -1, 0]:
    try: os.kill(pid, 9)
    except OSError: pass
"""


def test_a_sandbox_can_end_neither_the_zygote_nor_another(forking: Bubblewrap) -> None:
    first, second = Session(forking.start()), Session(forking.start())
    graders = [Grader(session).load() for session in (first, second)]
    kills = (
        "import os, signal\nfor pid in [-1, 0, *range(2, 500)]:\n    try: os.kill(pid, 9)\n    except OSError: pass\n"
    )
    outcome = graders[0].score(kills)[0]
    assert outcome.score is None
    assert graders[1].ask("answer = 7") == 7
    assert forking.zygote is not None
    assert forking.zygote.alive
    for session in (first, second):
        session.end()


def test_when_the_zygote_has_died_all_that_came_of_it_has_ended_and_another_takes_its_place() -> None:
    with closing(Bubblewrap(SandboxSettings())) as made:
        assert made.zygote is not None
        session = Session(made.start())
        grader = Grader(session).load()
        os.kill(made.zygote.pid, signal.SIGKILL)
        assert eventually(lambda: not _runs(session.sandbox.pid))
        with pytest.raises(Ended):
            list(grader.session.grade(b'{"completion": ""}\n', 1))
        session.end()
        assert eventually(lambda: made.zygote is not None and not made.zygote.alive)
        again = Session(made.start())
        assert Grader(again).load().ask("answer = 1") == 1
        again.end()


def test_closing_ends_the_zygote_and_all_that_came_of_it() -> None:
    made = Bubblewrap(SandboxSettings())
    assert made.zygote is not None
    pids = [made.zygote.pid, made.start().pid, made.start().pid]
    made.close()
    assert [pid for pid in pids if _runs(pid)] == []


_OPENS = """
import sys
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.settings import SandboxSettings
from sandbox.session import Session
made = Bubblewrap(SandboxSettings())
sandbox = made.start()
Session(sandbox).await_ready()
print(made.zygote.pid, sandbox.pid, flush=True)
sys.stdin.read()
"""


def test_a_service_that_is_killed_leaves_neither_the_zygote_nor_a_sandbox() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OPENS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    ) as process:
        assert process.stdout is not None
        pids = [*map(int, process.stdout.readline().split())]
        assert len(pids) == 2
        assert all(map(_runs, pids))
        process.kill()
    assert eventually(lambda: not any(map(_runs, pids)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda seen: seen.replace("Seccomp:\t2", "Seccomp:\t0"), "Seccomp is 0"),
        (lambda seen: seen.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0"), "NoNewPrivs is 0"),
        (
            lambda seen: seen.replace("CapBnd:\t0000000000000000", "CapBnd:\t0000000000000001"),
            "CapBnd is 0000000000000001",
        ),
        (lambda seen: seen.replace("Uid:\t", "Uid:\t0\t"), "Uid is 0"),
        (lambda seen: seen.replace("\t1\nNSpgid", "\t2\nNSpgid"), "it is not pid 1"),
    ],
)
def test_one_that_kept_something_is_not_used(
    changed: Callable[[str], str], message: str, forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, pids = Path.read_text, []

    def told(path: Path, *arguments: Any, **more: Any) -> str:
        text = read(path, *arguments, **more)
        if path.name != "status":
            return text
        pids.append(int(path.parent.name))
        assert changed(text) != text
        return changed(text)

    monkeypatch.setattr(Path, "read_text", told)
    with pytest.raises(InfrastructureError, match=f"not isolated: {message}"):
        forking.start()
    monkeypatch.undo()
    assert len(pids) == 1
    assert not _runs(pids[0])


@pytest.mark.parametrize("name", ["user", "mnt", "net", "ipc", "uts"])
def test_one_that_is_elsewhere_is_not_used(name: str, forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, looked = zygote._inside, []

    def told(pid: int, asked: str) -> str:
        looked.append(pid)
        return inside(os.getpid() if asked == name and pid == looked[0] else pid, asked)

    monkeypatch.setattr(zygote, "_inside", told)
    with pytest.raises(InfrastructureError, match=f"not isolated: it has another {name} namespace$"):
        forking.start()
    assert not _runs(looked[0])


def test_a_copy_that_cannot_enter_says_why_and_the_zygote_goes_on(forking: Bubblewrap) -> None:
    """The namespaces of this process belong to nobody who a sandbox may be."""
    assert forking.zygote is not None
    uid = 200_000 if os.geteuid() == 0 else 0
    ours, theirs = socket.socketpair()
    here = First(os.getpid(), os.pidfd_open(os.getpid()))
    with (
        ours,
        theirs,
        pytest.raises(InfrastructureError, match=r"could not be forked: .*setns: Operation not permitted"),
    ):
        forking.zygote.fork(uid, here, theirs, None)
    os.close(here.pidfd)
    session = Session(forking.start())
    assert Grader(session).load().ask("answer = 3") == 3
    session.end()


def test_where_there_can_be_no_zygote_each_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote, "_PROGRAM", ("/usr/bin/there-is-none",))
    with closing(Bubblewrap(SandboxSettings())) as made:
        assert made.zygote is None
        assert "could not be started" in made.why_no_zygote or "did not answer" in made.why_no_zygote
        session = Session(made.start())
        assert Grader(session).load().ask("answer = 5") == 5
        session.end()


def _runs(pid: int) -> bool:
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False
