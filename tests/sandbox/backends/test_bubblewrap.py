"""Tests of the zygote: a forked sandbox equals a newly started one, and nothing passes from one to the next."""

import errno
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from gradebox.schemas import Isolation
from sandbox import image
from sandbox.backends.bubblewrap import Bubblewrap, BubblewrapSandbox, bwrap_run, zygote
from sandbox.backends.bubblewrap.bwrap_run import BwrapRun
from sandbox.backends.bubblewrap.first_process import FirstProcess
from sandbox.errors import InfrastructureError, IsolationUnavailable, StillRunning
from sandbox.grader_source import GraderSource
from sandbox.grading.channel import Ended
from sandbox.grading.session import Session
from sandbox.kernel import memory_monitor, seccomp
from sandbox.kernel.cgroups import Cgroup, Cgroups
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings
from tests.processes import runs
from tests.sandbox.contract.conftest import GRADER, Grader, started
from tests.waiting import eventually
from tests.wheels import folder_for_environments

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).parents[3]
# Fields that differ between sandboxes or change over time, and sizes of memory
_ITS_OWN = {"Pid", "PPid", "Tgid", "NStgid", "NSpid", "NSpgid", "NSsid", "FDSize", "Uid", "Gid"}
_COUNTED = ("Vm", "Rss", "Cpus_", "Mems_", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
# What code can observe about its process
_SEEN = {
    "signal handlers": "{n: str(signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)}",
    "limits": "[resource.getrlimit(number) for number in range(16)]",
    "files": "[sorted(os.listdir(folder)) for folder in ('/usr', '/usr/lib', '/usr/lib/gradebox', '/tmp', '/dev/shm')]",
    "user": "[os.getresuid(), os.getresgid(), os.getgroups(), os.getppid(), os.getsid(0), os.getpid()]",
    "environment": "[os.getcwd(), sorted(os.environ.items()), os.umask(0o022), os.uname()[1]]",
    "interpreter": "[list(sys.flags), sys.path, sys.executable, sys.prefix, sys.getswitchinterval()]",
    "finders": "[getattr(one, '__name__', type(one).__name__) for one in sys.meta_path]",
    "collector": "[gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)]",
    "threads": "[thread.name for thread in threading.enumerate()]",
    # more than libffi has code for in one page
    "callbacks": "[*map(ctypes.CFUNCTYPE(ctypes.c_int), [lambda n=n: n for n in range(300)])][-1]()",
    "modules": "[sys.modules[name].__spec__.origin for name in ('os', 'gradebox.thread', 'gradebox._guest.child')]",
}
# Capabilities to change user, to kill other users' processes, to make the zygote's namespaces, to inspect a sandbox's
_NEEDED = ("setuid", "setgid", "kill", "net_admin", "sys_admin", "sys_ptrace")
_STARTS_ONE = """
from contextlib import closing
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.grading.session import Session
from sandbox.settings import SandboxSettings

for is_forked in (True, False):
    with closing(Bubblewrap(SandboxSettings(zygote=is_forked))) as made:
        assert (made.zygote is not None) == is_forked, made.why_no_zygote
        session = Session(made.start())
        session.await_ready()
        session.end()
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
    """The kernel's data about pid 1 of a sandbox, except what differs between sandboxes."""
    proc = Path(f"/proc/{sandbox.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    told = {name: value for name, value in status.items() if name not in _ITS_OWN and not name.startswith(_COUNTED)}
    mounts = [line.split(" - ")[0].split(" ", 3)[3] for line in (proc / "mountinfo").read_text().splitlines()]
    if os.geteuid() == 0:  # only root may inspect a process that is not dumpable
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
        "its own numbers": str([status[name].split()[-1] for name in ("NSpid", "NSpgid", "NSsid")]),
        "uids": str(len(set(status["Uid"].split() + status["Gid"].split()))),
    }


def _descriptors(pid: int) -> dict[str, str]:
    return {one.name: str(one.readlink()).partition(":")[0] for one in Path(f"/proc/{pid}/fd").iterdir()}


def _has_template(sandboxes: list[BubblewrapSandbox]) -> bool:
    return all(Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text() for one in sandboxes)


def test_what_is_forked_is_to_the_kernel_what_would_be_started(forking: Bubblewrap, executing: Bubblewrap) -> None:
    sandboxes = [made.start() for made in (forking, executing)]
    try:
        for sandbox in sandboxes:
            Session(sandbox).await_ready()
        eventually(lambda: _has_template(sandboxes) and _told(sandboxes[0]) == _told(sandboxes[1]))
        forked, executed = map(_told, sandboxes)
        assert forked == executed
        assert forked["processes"] == "1"
        assert [forked[name].strip() for name in ("CapBnd", "NoNewPrivs", "Seccomp")] == ["0" * 16, "1", "2"]
    finally:
        for sandbox in sandboxes:
            sandbox.end()


def test_a_completion_finds_the_same_in_it(forking: Bubblewrap, executing: Bubblewrap) -> None:
    found = []
    for made in (forking, executing):
        with started(made) as session:
            grader = Grader(session).load()
            asked = "import ctypes, gc, os, resource, signal, sys, threading\nanswer = "
            found.append({name: grader.ask(asked + expression) for name, expression in _SEEN.items()})
    assert found[0] == found[1]


_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)


@contextmanager
def _as_under_nohup() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
    umask = os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGWINCH])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM, signal.SIGWINCH])
        for number, handler in before.items():
            signal.signal(number, handler)
        os.umask(umask)


@pytest.mark.parametrize("zygote", [True, False])
def test_signals_and_the_umask_are_not_those_of_what_started_the_service(zygote: bool, forking: Bubblewrap) -> None:
    """A blocked SIGALRM would end no endless loop."""
    asked = "import os, signal\nanswer = [sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), os.umask(0o022), "
    asked += _SEEN["signal handlers"]
    found = []
    with _as_under_nohup(), closing(Bubblewrap(SandboxSettings(zygote=zygote))) as made, started(made) as session:
        found.append(Grader(session).load().ask(f"{asked}]"))
    with started(forking) as session:
        found.append(Grader(session).load().ask(f"{asked}]"))
    assert found[0] == found[1]
    assert found[0][:2] == [[], 0o022]


def test_each_has_namespaces_of_its_own(forking: Bubblewrap) -> None:
    sandboxes = [forking.start() for _ in range(3)]
    assert forking.zygote is not None
    pids = ["self", forking.zygote.pid, *(sandbox.pid for sandbox in sandboxes)]
    names = ("mnt", "net", "ipc", "uts", "pid", "cgroup", "user")
    found = {name: len({Path(f"/proc/{pid}/ns/{name}").readlink() for pid in pids}) for name in names}
    # The zygote joins control groups in the service's cgroup namespace. As root it also stays in the user namespace,
    # to take the user id of each sandbox.
    user = 4 if os.geteuid() == 0 else 5
    assert found == {"mnt": 5, "net": 5, "ipc": 5, "uts": 5, "pid": 5, "cgroup": 4, "user": user}
    for sandbox in sandboxes:
        sandbox.end()


def test_no_open_file_is_shared(forking: Bubblewrap) -> None:
    """Flags belong to the open file, not to a descriptor of it."""
    change = "import fcntl, os; fcntl.fcntl(FD, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND); answer = True"
    look = "import fcntl; answer = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in range(3)]"
    with started(forking) as one, started(forking) as other:
        first, second = (Grader(session).load() for session in (one, other))
        before = second.ask(look)
        for descriptor in range(3):
            assert first.ask(change.replace("FD", str(descriptor)))
        assert second.ask(look) == before
        with started(forking) as third:
            assert Grader(third).load().ask(look) == before


def test_one_grader_changes_nothing_for_the_next(forking: Bubblewrap) -> None:
    """Python's process-wide state and the heap of each sandbox are a private copy of the zygote's."""
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
        "answer += [hasattr(one, 'body') for one in (json, builtins)]\n"
    )
    module = "import json, builtins\njson.body = builtins.body = True\n"
    with started(forking) as first, started(forking) as second:
        assert Grader(first).load(module + GRADER).ask(taint) == [True, True]
        with started(forking) as third:
            for session in (second, third):
                assert Grader(session).load().ask(look) == [False] * 8
                assert session.sandbox.pid != first.sandbox.pid


def test_the_zygote_hears_and_keeps_nothing_of_what_a_sandbox_is_for(forking: Bubblewrap) -> None:
    """Its memory contains nothing of a grader or a completion, and it keeps no descriptor of a sandbox."""
    assert forking.zygote is not None
    secret = "n0b0dy-0utside-kn0ws"
    with started(forking) as session:
        assert Grader(session).load(f"SECRET = {secret!r}\n{GRADER}").ask(f"answer = {secret!r}") == secret
        if os.geteuid() == 0:
            memory = _memory(forking.zygote.pid)
            assert b"gradebox._guest.supervisor.main" in memory
            assert secret.encode() not in memory
            assert set(_descriptors(forking.zygote.pid)) == {"0", "1", "2", "3"}


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
for pid in [*set(range(1, 500)) - {os.getpid()}, -1, 0]:
    try: os.kill(pid, 9)
    except OSError: pass
"""


def test_a_sandbox_can_end_neither_the_zygote_nor_another(forking: Bubblewrap) -> None:
    with started(forking) as first, started(forking) as second:
        graders = [Grader(session).load() for session in (first, second)]
        with pytest.raises(pytest.fail.Exception, match="the sandbox ended"):
            graders[0].score(_KILLS)
        assert graders[1].ask("answer = 7") == 7
        assert forking.zygote is not None and not forking.zygote.has_ended()


def test_when_the_zygote_has_died_all_that_came_of_it_has_ended_and_another_takes_its_place() -> None:
    with closing(Bubblewrap(SandboxSettings())) as made:
        assert made.zygote is not None
        with started(made) as session:
            grader = Grader(session).load()
            os.kill(made.zygote.pid, signal.SIGKILL)
            eventually(lambda: not runs(session.sandbox.pid), 8.0)
            with pytest.raises(Ended):
                list(grader.session.grade(b'{"completion": ""}\n', 1))
        with started(made) as again:
            assert Grader(again).load().ask("answer = 1") == 1


def test_closing_ends_the_zygote_and_all_that_came_of_it() -> None:
    made = Bubblewrap(SandboxSettings())
    assert made.zygote is not None
    pids = [made.zygote.pid, made.start().pid, made.start().pid]
    made.close()
    assert [pid for pid in pids if runs(pid)] == []


_STARTS = """
import os, signal, time
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.settings import SandboxSettings

def serve(told):
    made = Bubblewrap(SandboxSettings())
    assert made.zygote is not None
    os.write(told, b"1")
    while True:
        made.start().end()

for number in range(12):  # each service is a copy of this process, which spares its imports
    starts, told = os.pipe()
    service = os.fork()
    if service == 0:
        try:
            serve(told)
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(starts, 1) == b"1"
    time.sleep(number * 0.001)
    os.kill(service, signal.SIGKILL)
    os.waitpid(service, 0)
    os.close(starts)
"""


def test_a_service_that_is_killed_while_it_starts_sandboxes_leaves_none() -> None:
    size = (16 << 20) + random.randrange(1 << 12) * 4096  # of /tmp; identifies the sandboxes
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "GRADEBOX_SCRATCH_BYTES": str(size)}
    subprocess.run([sys.executable, "-c", _STARTS], check=True, env=environment, timeout=120)
    eventually(lambda: _using(size) == [], 8.0)


_SLOW = """#!/bin/sh
exec strace -D -f -qq -o /dev/null -e trace=write -e inject=write:delay_enter=700000:when=1 bwrap "$@"
"""
_STARTS_SLOWLY = """
import os, sys, threading
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.settings import SandboxSettings
made = Bubblewrap(SandboxSettings(zygote=False))
made._program = sys.argv[1]
threading.Thread(target=made.start, daemon=True).start()
threading.Event().wait(0.4)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which delays bubblewrap, is not installed")
def test_a_service_that_is_killed_before_bubblewrap_lets_its_first_process_go_leaves_none() -> None:
    size = (16 << 20) + random.randrange(1 << 12) * 4096
    slow = Path("/tmp") / f"slow-bwrap-{size}"  # users of sandboxes may not read the folder of this test
    slow.write_text(_SLOW)
    slow.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "GRADEBOX_SCRATCH_BYTES": str(size)}
    try:
        subprocess.run([sys.executable, "-c", _STARTS_SLOWLY, str(slow)], check=False, env=environment, timeout=60)
        eventually(lambda: _using(size) == [], 8.0)
    finally:
        slow.unlink()


def _using(size: int) -> list[str]:
    """Processes that have mounted a folder of this size, or have the size in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            mounted = f"size={size >> 10}k" in (process / "mountinfo").read_text()
            if mounted or str(size) in (process / "cmdline").read_text().split("\0"):
                found.append((process / "status").read_text()[:80])
    return found


_OPENS = """
import sys
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.settings import SandboxSettings
from sandbox.grading.session import Session
made = Bubblewrap(SandboxSettings())
sandbox = made.start()
Session(sandbox).await_ready()
print(made.zygote.pid, sandbox.pid, flush=True)
sys.stdin.read()
"""


def test_a_service_that_is_killed_leaves_neither_the_zygote_nor_a_sandbox() -> None:
    command = [sys.executable, "-c", _OPENS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        pids = [*map(int, process.stdout.readline().split())]
        assert len(pids) == 2
        assert all(map(runs, pids))
        process.kill()
    eventually(lambda: not any(map(runs, pids)), 8.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Seccomp", "0", "Seccomp is 0"),
        ("NoNewPrivs", "0", "NoNewPrivs is 0"),
        *((name, "1" * 16, f"{name} is 1111") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
        ("NSpid", "12 3 2", "it is not pid 1"),
        ("NSpid", "12 11", "it is not pid 1"),
    ],
)
def test_one_that_kept_something_is_not_used(
    name: str, value: str, message: str, forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, pids = zygote._status, []

    def told(pid: int) -> dict[str, str]:
        pids.append(pid)
        seen = status(pid)
        assert name in seen
        return {**seen, name: value}

    monkeypatch.setattr(zygote, "_status", told)
    with pytest.raises(InfrastructureError, match=f"not isolated: {message}"):
        forking.start()
    assert len(pids) == 1
    assert not runs(pids[0])


_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandboxes have that user's own ids")


@_AS_ROOT
@pytest.mark.parametrize("name", ["Uid", "Gid", "Groups"])
def test_one_that_is_somebody_else_is_not_used(name: str, forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    must = zygote._must
    monkeypatch.setattr(zygote, "_must", lambda uid: {**must(uid), name: "1 2 3 4"})
    with pytest.raises(InfrastructureError, match=f"not isolated: {name} is"):
        forking.start()


@_AS_ROOT
def test_what_is_forked_is_in_no_group_of_the_service() -> None:
    before = os.getgroups()
    os.setgroups([4, 24, 27])
    try:
        made = Bubblewrap(SandboxSettings())
    finally:
        os.setgroups(before)
    with closing(made):
        assert made.zygote is not None and "Groups:\t4 24 27" in Path(f"/proc/{made.zygote.pid}/status").read_text()
        with started(made) as session:
            assert Grader(session).load().ask("import os; answer = os.getgroups()") == []


@pytest.mark.parametrize("name", ["user", "mnt", "net", "ipc", "uts"])
def test_one_that_is_elsewhere_is_not_used(name: str, forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, looked = zygote._inside, []

    def told(pid: int, asked: str) -> str:
        looked.append(pid)
        return inside(os.getpid() if asked == name and pid == looked[0] else pid, asked)

    monkeypatch.setattr(zygote, "_inside", told)
    with pytest.raises(InfrastructureError, match=f"not isolated: it has another {name} namespace$"):
        forking.start()
    assert not runs(looked[0])


def test_a_copy_that_cannot_enter_says_why_and_the_zygote_goes_on(forking: Bubblewrap) -> None:
    """No user of a sandbox owns the namespaces of this process."""
    assert forking.zygote is not None
    uid = 200_000 if os.geteuid() == 0 else 0
    ours, theirs = socket.socketpair()
    here = FirstProcess(os.getpid(), os.pidfd_open(os.getpid()))
    said = r"could not be forked: .*setns: (Operation not permitted|Invalid argument)"
    with ours, theirs, pytest.raises(InfrastructureError, match=said):
        forking.zygote.fork(uid, here, theirs, None, seccomp.program())
    os.close(here.pidfd)
    with started(forking) as session:
        assert Grader(session).load().ask("answer = 3") == 3


def test_a_zygote_that_dies_at_any_moment_costs_no_start() -> None:
    with closing(Bubblewrap(SandboxSettings())) as made:
        for number in range(20):
            assert made.zygote is not None
            killing = threading.Timer(number * 0.001, _kill, (made.zygote.pid,))
            killing.start()
            sandbox = made.start()
            killing.join()
            sandbox.end()


def test_the_zygote_may_do_little_itself_and_buries_what_it_forked(forking: Bubblewrap) -> None:
    assert forking.zygote is not None
    forking.start().end()
    proc = Path(f"/proc/{forking.zygote.pid}")
    status = (proc / "status").read_text()
    can = (1 << 6 | 1 << 7) if os.geteuid() == 0 else 0  # CAP_SETGID, CAP_SETUID
    for name in ("CapPrm", "CapEff"):
        assert f"{name}:\t{can:016x}" in status
    mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    folders = {line[4]: line[5].split(",")[0] for line in mounts if line[4] != "/dev/null"}
    assert folders == {"/": "ro", "/usr/lib/gradebox": "ro"}
    children = proc / "task" / proc.name / "children"
    eventually(lambda: children.read_text() == "", 8.0)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # the zygote has already ended
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("notices", [True, False])
def test_warm_sandboxes_that_went_with_their_zygote_are_missed(notices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not notices:  # as on a busy machine, where they end a moment after the zygote
        monkeypatch.setattr(Session, "is_gone", lambda _: False)
    settings = SandboxSettings(warm_sandboxes=6)
    made = Bubblewrap(settings)
    with Pool(made, settings) as pool:
        eventually(lambda: len(pool._ready._empty) == 6)
        assert made.zygote is not None
        os.kill(made.zygote.pid, signal.SIGKILL)
        assert pool.prove(GraderSource("async def grade(thread):\n    return 1.0\n")).valid


def test_one_that_does_not_exit_keeps_what_it_has(forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    made = forking.start()
    os.kill(made.pid, signal.SIGSTOP)
    given_back: list[int] = []
    give_back = forking._give_back
    monkeypatch.setattr(forking, "_give_back", lambda uid: [give_back(uid), given_back.append(uid)])  # type: ignore[func-returns-value]
    with monkeypatch.context() as patch:
        patch.setattr("sandbox.backends.bubblewrap.sandbox.END_S", 0.1)
        patch.setattr(FirstProcess, "kill", lambda _: None)
        for _ in range(2):
            with pytest.raises(StillRunning, match=r"has not exited within 0\.1 s"):
                made.end()
    assert given_back == []
    made.end()
    made.end()
    assert len(given_back) == 1


def test_nothing_is_left_to_be_buried() -> None:
    """If the service is pid 1 of a container, no other process reaps orphans."""
    subprocess.run([sys.executable, "-c", _BURIES], cwd=_ROOT, check=True, timeout=60)


_BURIES = """
import os
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.guest.kernel.lockdown import adopt_orphans
from sandbox.settings import SandboxSettings
adopt_orphans()
for zygote in (True, False):
    made = Bubblewrap(SandboxSettings(zygote=zygote))
    assert (made.zygote is not None) is zygote
    for _ in range(10):
        made.start().end()
    made.close()
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass
    else:
        raise SystemExit(f"somebody is left, zygote: {zygote}")
"""


def test_a_zygote_that_answers_nobody_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote, "START_S", 2.0)
    with closing(Bubblewrap(SandboxSettings())) as made:
        stopped = made.zygote
        assert stopped is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        with started(made) as session:
            assert Grader(session).load().ask("answer = 2") == 2
            assert made.zygote is not stopped
            assert not runs(stopped.pid)


@pytest.mark.parametrize("room", range(4, 12))
def test_descriptors_that_get_lost_on_the_way_are_missed(room: int, forking: Bubblewrap) -> None:
    """The kernel drops descriptors that the process has no room for. Those of its control groups come last."""
    assert forking.zygote is not None
    hard = resource.prlimit(forking.zygote.pid, resource.RLIMIT_NOFILE)[1]
    needed = 8 + _entrances(forking)
    resource.prlimit(forking.zygote.pid, resource.RLIMIT_NOFILE, (room, hard))
    try:
        if room < needed:
            with pytest.raises(InfrastructureError, match="could not be forked"):
                forking.start()
        else:
            forking.start().end()
    finally:
        resource.prlimit(forking.zygote.pid, resource.RLIMIT_NOFILE, (hard, hard))
    forking.start().end()


def _entrances(made: Bubblewrap) -> int:
    if made.cgroups is None:
        return 0
    group = made.cgroups.make(8)
    group.remove()
    return len(group.entrances)


def test_one_outside_its_control_groups_is_not_used(forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    if forking.cgroups is None:
        return  # there are no control groups here
    groups = forking.cgroups
    elsewhere = groups.make(8)
    try:
        monkeypatch.setattr(groups, "make", lambda *_: Cgroup({**elsewhere.folders, "memory": Path("/not/this")}, 1))
        monkeypatch.setattr(Cgroup, "entrances", elsewhere.entrances)
        with pytest.raises(InfrastructureError, match="not isolated: it is not in its control groups"):
            forking.start()
    finally:
        elsewhere.remove()


def test_bubblewrap_says_itself_what_it_could_not_do(forking: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _open_here()
    monkeypatch.setattr(bwrap_run, "scratch", lambda _: ["--ro-bind", "/there/is/none", "/tmp"])
    for _ in range(5):
        with pytest.raises(InfrastructureError, match="could not be started: bwrap: Can't find source path /there/is"):
            forking.start()
    assert _open_here() == before


@pytest.mark.parametrize("zygote", [True, False])
@pytest.mark.parametrize("has_ended", [True, False])
def test_one_that_cannot_be_held_is_not_left(has_ended: bool, zygote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have ended already, or the service may have no room for another descriptor."""

    def opened(pid: int) -> int:
        if has_ended:
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not Path(f"/proc/{pid}").exists())
            raise ProcessLookupError
        raise OSError(errno.EMFILE, "no room")

    size = (16 << 20) + random.randrange(1 << 12) * 4096
    with closing(Bubblewrap(SandboxSettings(zygote=zygote, scratch_bytes=size))) as made:
        before = _open_here()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pidfd_open", opened)
            for _ in range(3):
                with pytest.raises(InfrastructureError, match="ended by SIGKILL" if has_ended else "no room"):
                    made.start()
        assert _open_here() == before
        eventually(lambda: _using(size) == [], 8.0)
        made.start().end()


def test_one_that_was_never_reported_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """bubblewrap was killed, as by the kernel's OOM killer, after it had made a process that waits for it."""
    killed = "import os, signal, sys; os.fork() and os.kill(os.getpid(), 9); os.close(int(sys.argv[2])); signal.pause()"
    monkeypatch.setattr(bwrap_run, "_LAST_S", 0.05)
    ours, stdin = socket.socketpair()
    with ours:
        with stdin, pytest.raises(InfrastructureError, match="bubblewrap was ended by SIGKILL, as by the kernel"):
            BwrapRun([sys.executable, "-c", killed], (), stdin)
        ours.settimeout(5.0)
        assert ours.recv(1) == b""  # whatever had the other end has ended


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "ended with status 3"),
        ("exit 255", "ended with status 255"),
        ("exec sleep 60", "did not answer in time"),
        ("echo why >&2", "why\\."),
    ],
)
def test_what_ended_one_at_its_start_is_told(command: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap_run, "_START_MS", 50)
    monkeypatch.setattr(bwrap_run, "_LAST_S", 0.05)
    ours, stdin = socket.socketpair()
    with ours, stdin, pytest.raises(InfrastructureError, match=said):
        BwrapRun(["sh", "-c", command], (), stdin)


def test_one_whose_service_was_killed_before_the_report_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[BwrapRun] = []

    def kill(run: BwrapRun, info: int) -> None:
        run._block.close()
        killed.append(run)
        raise KeyboardInterrupt

    monkeypatch.setattr(BwrapRun, "_hold", kill)
    monkeypatch.setattr(BwrapRun, "end", lambda _: None)
    ours, stdin = socket.socketpair()
    with ours:
        with stdin, pytest.raises(KeyboardInterrupt):
            BwrapRun(["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--as-pid-1"], ["true"], stdin)
        ours.settimeout(5.0)
        try:
            assert ours.recv(1) == b""  # whatever had the other end has ended
        finally:
            os.killpg(killed[0].bubblewrap.pid, signal.SIGKILL)
            killed[0].bubblewrap.communicate()


def test_a_zygote_that_cannot_start_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made = image.build(SandboxSettings().image_dir)
    before = _open_here()
    monkeypatch.setattr(BwrapRun, "go", _breaks)
    for _ in range(5):
        with pytest.raises(BrokenPipeError):
            zygote.Zygote("bwrap", made)
    assert _open_here() == before


def _breaks(started: BwrapRun) -> None:
    assert started.pid
    raise BrokenPipeError


def _open_here() -> int:
    """The number of open files, without those that the monitor of memory opens for a moment."""

    def now() -> int:
        time.sleep(0.02)
        return len(list(Path("/proc/self/fd").iterdir()))

    return min(now() for _ in range(5))


def test_without_control_groups_a_kernel_must_list_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Cgroups, "find", lambda: None)
    monkeypatch.setattr(memory_monitor, "_CHILDREN", tmp_path / "children")
    with pytest.raises(IsolationUnavailable, match="CONFIG_PROC_CHILDREN"):
        Bubblewrap(SandboxSettings())


def test_where_there_can_be_no_zygote_each_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote, "_PROGRAM", ("/usr/bin/there-is-none",))
    with closing(Bubblewrap(SandboxSettings())) as made:
        assert made.zygote is None
        assert "could not be started" in made.why_no_zygote or "did not answer" in made.why_no_zygote
        with started(made) as session:
            assert Grader(session).load().ask("answer = 5") == 5


_SESSIONS = """
import os, signal, subprocess, time
from gradebox import Score

COMMAND = ["python3", "-I", "-S", "-c", "import os, time; os.fork(); time.sleep(60)"]

async def grade(thread):
    spawned = [
        subprocess.Popen(COMMAND, start_new_session=True),
        subprocess.Popen(COMMAND, preexec_fn=os.setsid),
        subprocess.Popen(COMMAND, process_group=0),
    ]
    lead = [os.getpgid(one.pid) == one.pid for one in spawned]
    sessions = {os.getsid(one.pid) for one in spawned} - {os.getsid(0)}
    for one in spawned:
        os.killpg(os.getpgid(one.pid), signal.SIGKILL)
    ends = [one.wait(5) for one in spawned]
    return Score(len(sessions), reason=f"{lead} {ends}")
"""


@pytest.mark.parametrize("zygote", [True, False])
@pytest.mark.parametrize("isolation", ["batch", "completion"])
@pytest.mark.parametrize("has_groups", [True, False])
def test_nobody_begins_a_session_where_sessions_share_the_processors(
    has_groups: bool, isolation: Isolation, zygote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`subprocess` and `os.killpg` can still start and kill a group of processes."""
    if has_groups and Cgroups.find() is None:
        return
    if not has_groups:
        monkeypatch.setattr(Cgroups, "find", lambda: None)
    with closing(Bubblewrap(SandboxSettings(zygote=zygote))) as made, started(made) as session:
        (outcome,) = Grader(session).load(_SESSIONS, isolation).score("")
        assert outcome.reason == "[True, True, True] [-9, -9, -9]", outcome
        assert outcome.score == (2.0 if has_groups else 0.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has one user id")
def test_no_two_sandboxes_have_one_user_id(forking: Bubblewrap, executing: Bubblewrap) -> None:
    sandboxes = [made.start() for made in (forking, executing) * 3]
    told = {line for one in sandboxes for line in Path(f"/proc/{one.pid}/status").read_text().splitlines()}
    uids = {line for line in told if line.startswith("Uid:")}
    for sandbox in sandboxes:
        sandbox.end()
    assert len(uids) == len(sandboxes)


@pytest.mark.parametrize("has_zygote", [True, False])
def test_one_that_can_change_the_shared_device_is_not_used(has_zygote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Bubblewrap(SandboxSettings(zygote=has_zygote))) as made:
        for module in (bwrap_run, zygote):
            monkeypatch.setattr(module, "is_read_only", lambda *_: False)
        with pytest.raises(InfrastructureError, match="it can change /dev/null"):
            made.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has none")
def test_root_needs_no_more_capabilities_than_it_uses() -> None:
    kept = ",".join(("-all", *(f"+{name}" for name in _NEEDED)))
    command = ["setpriv", f"--bounding-set={kept}", "--", sys.executable, "-c", _STARTS_ONE]
    subprocess.run(command, cwd=_ROOT, check=True, timeout=120)


@pytest.mark.parametrize("zygote", [True, False])
def test_files_that_somebody_removes_make_no_score_and_are_made_again(zygote: bool) -> None:
    imports = "try:\n        import decimal\n    except ImportError:\n        return 0.0\n    return 1.0"
    source = GraderSource(f"async def grade(thread):\n    {imports}", "completion")
    with folder_for_environments() as folder:
        made = image.build(SandboxSettings().image_dir)
        for path in (made.root, made.guest):  # making it takes seconds
            shutil.copytree(path, folder / path.name, symlinks=True)
        settings = SandboxSettings(image_dir=folder, zygote=zygote)
        with Pool(Bubblewrap(settings), settings) as pool, pool.grading(source) as grading:
            grading.load()
            for path in (*folder.glob("python-*"), *folder.glob("guest-*")):
                shutil.rmtree(path)
            scores: list[float | None] = []

            def is_scored() -> bool:
                with suppress(InfrastructureError):
                    scores.append(grading.score(b'{"completion": ""}', 0, "a@1")[0].score)
                return bool(scores)

            eventually(is_scored, 60.0)
    assert scores == [1.0]
