"""A sandbox that is used again: nothing that the completions of one batch left behind reaches those of the next.

In batch isolation this is all that is promised, so the completions run as code here in both.
"""

import json
from typing import get_args

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool

pytestmark = pytest.mark.sandbox
_ISOLATIONS = ("batch", "completion")
assert set(_ISOLATIONS) < set(get_args(Isolation))

_GRADER = """
import builtins, ctypes, gc, glob, mmap, os, random, signal, socket, sys, threading, time

STATE = []

async def grade(thread):
    names = {**globals(), "thread": thread}
    exec(thread.completion(), names)
    return float(names.get("found", 0.0))
"""
# what a completion of the first batch does, and what one of the second looks for
_LEFT: dict[str, tuple[str, str]] = {
    "a file in /tmp": ("open('/tmp/left', 'w').write('x')", "found = os.path.exists('/tmp/left')"),
    "a hidden file": ("open('/tmp/.left', 'w').write('x')", "found = len(os.listdir('/tmp'))"),
    "a file in /dev/shm": ("open('/dev/shm/left', 'w').write('x')", "found = len(os.listdir('/dev/shm'))"),
    "a folder that nobody may open": (
        "os.makedirs('/tmp/a/b/c'); os.chmod('/tmp/a/b', 0); os.chmod('/tmp/a', 0)",
        "found = len(os.listdir('/tmp'))",
    ),
    "a link": ("os.symlink('/usr', '/tmp/usr')", "found = os.path.lexists('/tmp/usr')"),
    "a full /tmp": (
        "f = open('/tmp/full', 'wb')\ntry:\n while True: f.write(bytes(65536)); f.flush()\nexcept OSError: pass",
        "found = open('/tmp/mine', 'wb').write(bytes(1 << 20)) != 1 << 20",
    ),
    "/tmp unwritable": ("os.chmod('/tmp', 0)", "found = open('/tmp/mine', 'wb').write(b'x') != 1"),
    "a global of the module": ("STATE.append(1)", "found = len(STATE)"),
    "another grade": ("sys.modules['grader'].grade = None", "found = sys.modules['grader'].grade is None"),
    "other code of grade": (
        "sys.modules['grader'].grade.__code__ = (lambda thread: 666.0).__code__",
        "found = sys.modules['grader'].grade.__code__.co_argcount != 1",
    ),
    "a builtin": ("builtins.float = lambda *a: 666.0", "found = float('1') != 1.0"),
    "a module": ("sys.modules['left'] = sys", "found = 'left' in sys.modules"),
    "an import hook": ("sys.meta_path.insert(0, None)", "found = None in sys.meta_path"),
    "a trace function": ("threading.settrace(print); sys.setprofile(print)", "found = sys.getprofile() is not None"),
    "an environment variable": ("os.environ['LEFT'] = '1'", "found = 'LEFT' in os.environ"),
    "a working directory": ("os.chdir('/usr')", "found = os.getcwd() != '/tmp'"),
    "a umask": ("os.umask(0o777)", "found = os.umask(0o22) == 0o777"),
    "a signal handler": (
        "signal.signal(signal.SIGUSR1, print)",
        "found = signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL",
    ),
    "a blocked signal": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
        "found = bool(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    ),
    "an alarm": ("signal.alarm(60)", "found = signal.alarm(0)"),
    "a thread": ("threading.Thread(target=time.sleep, args=(60,)).start()", "found = threading.active_count() - 1"),
    "a process": ("os.fork() or time.sleep(60)", "found = sum(_alive(p) for p in range(2, 400))"),
    "a daemon": (
        "if not os.fork():\n os.setsid()\n if os.fork(): os._exit(0)\n time.sleep(60)\n os._exit(0)",
        "found = sum(_alive(p) for p in range(2, 400))",
    ),
    "a process group of daemons that ignore signals": (
        "for n in range(8):\n if not os.fork():\n  for s in range(1, 60):\n   try: signal.signal(s, signal.SIG_IGN)\n"
        "   except (OSError, ValueError): pass\n  os.setsid()\n  time.sleep(60)",
        "found = sum(_alive(p) for p in range(2, 400))",
    ),
    "a seed": ("random.seed(7); STATE[:] = [random.random()]", "found = random.random() == 0.32383276483316237"),
    "closed output": ("os.close(1); os.close(2); sys.stdout = None", "print('heard'); found = sys.stdout is None"),
    "a descriptor": (
        "[os.dup2(os.open('/usr/bin/python3', 0), n) for n in range(60, 70)]",
        "found = sum(_open(n) for n in range(60, 70))",
    ),
    "a resource limit": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))",
        "import resource; found = resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 40",
    ),
    "a recursion limit": ("sys.setrecursionlimit(77)", "found = sys.getrecursionlimit() == 77"),
}
_PROBES = """
def _alive(pid):
    if pid in (os.getpid(), os.getppid()):
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

def _open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
"""


@pytest.mark.parametrize("isolation", _ISOLATIONS)
@pytest.mark.parametrize("what", _LEFT)
def test_what_one_batch_leaves_the_next_does_not_find(what: str, isolation: Isolation, attacked: Pool) -> None:
    leave, look = _LEFT[what]
    _, sandbox = _grade(attacked, isolation, leave)
    outcome, again = _grade(attacked, isolation, look)
    assert outcome.score == 0.0, outcome
    assert again == sandbox, "it was not used again: this test shows nothing"


@pytest.mark.parametrize("isolation", _ISOLATIONS)
def test_what_a_batch_said_cannot_be_read_in_the_next(isolation: Isolation, attacked: Pool) -> None:
    """Two projects with the same source share a sandbox, so one must not read what the other graded."""
    _, sandbox = _grade(attacked, isolation, f"# {'x' * 2000} {'SECRET-OF-' + 'THE-FIRST'}\n")
    search = (
        "wanted = b'SECRET-OF-' + b'THE-FIRST'\n"
        "maps = [o for o in gc.get_objects() if isinstance(o, mmap.mmap)]\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    for value in list(frame.f_locals.values()):\n"
        "        maps += [v for v in getattr(value, '__dict__', {}).values() if isinstance(v, mmap.mmap)]\n"
        "    frame = frame.f_back\n"
        "for number in range(3, 128):\n"
        "    try: maps.append(mmap.mmap(number, 0, mmap.MAP_SHARED, mmap.PROT_READ))\n"
        "    except (OSError, ValueError): pass\n"
        "found = sum(memory[:].count(wanted) for memory in maps)\n"
    )
    outcome, again = _grade(attacked, isolation, search)
    assert outcome.score == 0.0, outcome
    assert again == sandbox


def _grade(pool: Pool, isolation: Isolation, code: str) -> tuple[Outcome, int]:
    line = json.dumps({"completion": _PROBES + code}).encode()
    with pool.grading(GraderSource(_GRADER, isolation, timeout_s=2.0)) as grading:
        sandbox = grading.session.sandbox
        (outcome,) = grading.score(line, 0, "again@1")
        return outcome, sandbox.pid
