"""Tests that code in a sandbox reaches nothing outside."""

import os
import platform
import socket
from collections.abc import Iterator

import pytest

from sandbox.backends.base import ENVIRONMENT
from sandbox.guest.protocol.chunk import SHARED_BYTES
from sandbox.hostile.watched import Watched
from tests.backends import STARTED
from tests.sandbox.contract.conftest import Grader, Loads, started

pytestmark = pytest.mark.sandbox
VARIANTS = STARTED

_TRY = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
try:
{code}
    answer = "it worked"
except OSError as error:
    answer = errno.errorcode.get(error.errno)
"""

# Each must fail with an error that means refusal or absence. The corpus in sandbox/hostile has more: sockets, writes,
# devices, namespaces, and the system calls that are refused whatever their arguments are.
REFUSED = {
    "writing over the guest": "open('/usr/lib/gradebox/start', 'a')",
    "removing the root": "os.rmdir('/usr/lib')",
    "32-bit file flags of pid 1": "os.open('/proc/1/mem', os.O_RDWR)",
    "the mounts": "open('/proc/self/mountinfo').read()",
    "its control group": "open('/proc/self/cgroup').read()",
    "the memory map": "open('/proc/self/maps').read()",
    "a list of processes": "os.listdir('/proc')",
    "its descriptors": "os.listdir('/proc/self/fd')",
    "the root of pid 1": "os.listdir('/proc/1/root/')",
    "its own root": "os.listdir('/proc/self/root/')",
    "a list of devices": "os.listdir('/sys/class')",
    "the firmware": "os.listdir('/sys/firmware')",
    "huge pages of the machine": "import mmap; mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)",
    "a terminal": "os.open('/dev/ptmx', os.O_RDWR)",
    "its terminal": "os.open('/dev/tty', os.O_RDWR)",
    "an endless file": "open('/dev/zero', 'rb')",
    "a full file": "open('/dev/full', 'wb')",
    "what random numbers are made from": "open('/dev/urandom', 'wb').write(b'x')",
    "message queues as files": "os.listdir('/dev/mqueue')",
    "the host's own folders": "os.listdir('/var')",
    "homes": "os.listdir('/root')",
    "passwords": "open('/etc/passwd').read(1) or os.stat('/nowhere')",
}


@pytest.fixture(scope="module")
def inside(backend: Watched) -> Iterator[Grader]:
    """A grader with a new process for each completion, shared by tests that leave nothing behind."""
    with started(backend) as session:
        yield Grader(session).load()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are named by their numbers on x86-64")
@pytest.mark.parametrize("what", REFUSED)
def test_it_cannot_have(what: str, inside: Grader) -> None:
    code = "".join(f"    {line}\n" for line in REFUSED[what].split("; "))
    assert inside.ask(_TRY.format(code=code)) in ("EPERM", "EACCES", "ENOENT", "EROFS", "ENOSYS", "ENXIO")


def test_its_environment_is_ours(inside: Grader) -> None:
    told = inside.ask("import os\nanswer = dict(os.environ)")
    told.pop("PWD", None)
    assert told == ENVIRONMENT
    assert inside.ask("import os\nanswer = os.environb.get(b'CANARY_SECRET')") is None


def test_memory_of_what_started_it_says_nothing_of_the_host(inside: Grader) -> None:
    """Every process inherits memory that contains the initial environment of pid 1."""
    search = """
import ctypes
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
answer, number = [], 0
while environ[number]:
    answer.append(environ[number].decode())
    number += 1
"""
    told = {line.partition("=")[0] for line in inside.ask(search)}
    assert told <= {*ENVIRONMENT, "PWD"}


def test_it_is_nobody(inside: Grader) -> None:
    uids, gids, groups = inside.ask("import os\nanswer = [os.getresuid(), os.getresgid(), os.getgroups()]")
    assert len({*uids, *gids, *groups}) == 1
    assert uids[0] >= 1000
    assert uids[0] != os.getuid()


def test_the_host_has_another_name(inside: Grader) -> None:
    assert inside.ask("import socket\nanswer = socket.gethostname()") == "sandbox" != socket.gethostname()


def test_libraries_that_read_dev_urandom_can(inside: Grader) -> None:
    """torch 2.13 reads eight bytes of it when it is imported."""
    assert inside.ask("answer = len(open('/dev/urandom', 'rb').read(8))") == 8


def test_it_sees_its_own_processes_alone(inside: Grader) -> None:
    search = """
import os
answer = []
for pid in range(1, 70_000):
    try:
        os.kill(pid, 0)
        answer.append(pid)
    except ProcessLookupError:
        pass
    except PermissionError:
        answer.append(-pid)
"""
    found = inside.ask(search)
    assert found[0] == 1
    assert len(found) <= 4  # the supervisor, the template, and itself


def test_it_holds_no_more_descriptors_than_it_needs(inside: Grader) -> None:
    count = """
import os
answer = []
for number in range(1024):
    try:
        os.fstat(number)
        answer.append(number)
    except OSError:
        pass
"""
    assert len(inside.ask(count)) <= 6


def test_no_program_gives_privileges(inside: Grader) -> None:
    search = """
import os
answer = []
for folder, _, names in os.walk("/usr"):
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if mode & 0o6000 or (mode & 0o2 and not os.path.islink(os.path.join(folder, name))):
            answer.append(name)
"""
    assert inside.ask(search) == []


def test_there_is_no_program_but_the_interpreter(inside: Grader) -> None:
    folders = "import shutil\nfolders = '/bin:/usr/bin:/sbin:/usr/sbin'\n"
    programs = "('su', 'sh', 'bash', 'mount', 'ping', 'passwd', 'newgrp')"
    assert inside.ask(f"{folders}answer = [shutil.which(one, path=folders) for one in {programs}]") == [None] * 7


def test_the_standard_library_works(inside: Grader) -> None:
    works = """
import asyncio, sqlite3, subprocess, sys, tempfile, threading, multiprocessing, concurrent.futures
database = sqlite3.connect(":memory:")
with tempfile.TemporaryFile() as file:
    file.write(b"x")
done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    squares = list(pool.map(lambda n: n * n, range(4)))
multiprocessing.Lock()
answer = [database.execute("select 1").fetchone()[0], done.stdout, squares]
"""
    assert inside.ask(works) == [1, "42\n", [0, 1, 4, 9]]


def test_programs_that_take_locks_go_on(inside: Grader) -> None:
    """Locks have no effect, because sandboxes share no writable files."""
    works = """
import fcntl, multiprocessing, os, sqlite3
answer = []
for mode in ("delete", "wal"):
    one, other = (sqlite3.connect(f"/tmp/{mode}.db", timeout=1) for _ in range(2))
    one.execute(f"pragma journal_mode={mode}")
    one.execute("create table t (a)")
    one.execute("insert into t values (1)")
    one.commit()
    other.execute("insert into t values (2)")
    other.commit()
    answer.append(one.execute("select sum(a) from t").fetchone()[0])
with multiprocessing.get_context("fork").Lock():
    answer.append("locked")
with open("/tmp/file", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_EX)
    file.flush()
    os.fsync(file.fileno())
"""
    assert inside.ask(works) == [3, 3, "locked"]


def test_a_limit_above_that_of_the_sandbox_has_no_effect(inside: Grader) -> None:
    """As EvalPlus' `reliability_guard` requests it. Where it failed, each program seemed to be wrong."""
    asked = """
import resource
answer = []
for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK):
    before = resource.getrlimit(which)
    resource.setrlimit(which, (1 << 40, 1 << 40))
    answer.append(resource.getrlimit(which) == before)
    resource.setrlimit(which, (before[0] - 4096, 1 << 40))
    answer.append(resource.getrlimit(which) == (before[0] - 4096, before[1]))
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
    before = resource.getrlimit(which)
    resource.setrlimit(which, [1 << 40, resource.RLIM_INFINITY])
    answer.append(resource.getrlimit(which) == (before[1], before[1]))
for which in (resource.RLIMIT_STACK, resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
    try:
        answer.append(resource.setrlimit(which, (resource.RLIM_INFINITY,) * 2))
    except ValueError:
        answer.append("refused")
"""
    assert inside.ask(asked) == [*[True] * 10, None, "refused", "refused"]


def test_whoever_wants_no_cores_has_none(inside: Grader) -> None:
    asked = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
answer = [list(resource.getrlimit(resource.RLIMIT_CORE))]
for wanted in ((2, 2), (resource.RLIM_INFINITY,) * 2):
    try:
        answer.append(resource.setrlimit(resource.RLIMIT_CORE, wanted))
    except ValueError:
        answer.append("refused")
"""
    assert inside.ask(asked) == [[1, 1], "refused", "refused"]


def test_user_locale_and_time_zones_are_as_usual(inside: Grader) -> None:
    asked = """
import getpass, locale, os, sys, time
locale.setlocale(locale.LC_ALL, "")
with open("/tmp/text", "w") as file:
    file.write("é")
answer = [getpass.getuser(), open("/tmp/text", "rb").read().decode(), sys.flags.utf8_mode]
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
answer.append(time.localtime(0).tm_hour)
"""
    assert inside.ask(asked) == ["grader", "é", 1, 9]


@pytest.mark.parametrize(
    "call",
    [
        "fcntl.fcntl(pipe, fcntl.F_SETLK, LOCK)",
        "fcntl.fcntl(pipe, fcntl.F_SETLKW, LOCK)",
        "fcntl.fcntl(pipe, fcntl.F_OFD_SETLK, LOCK)",
        "fcntl.fcntl(pipe, fcntl.F_OFD_SETLKW, LOCK)",
        "os.fsync(pipe)",
        "os.fdatasync(pipe)",
        "os.posix_fadvise(pipe, 0, 0, os.POSIX_FADV_DONTNEED)",
    ],
)
def test_a_call_without_effect_answers_as_if_it_had_one(call: str, inside: Grader) -> None:
    """The kernel would refuse each of these calls for the reading end of a pipe."""
    lock = "LOCK = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0)"
    asked = f"import fcntl, os, struct\n{lock}\npipe, _ = os.pipe()\n{call}\nanswer = 'done'"
    assert inside.ask(asked) == "done"


def test_sandboxes_that_live_at_once_do_not_see_each_others_locks(backend: Watched) -> None:
    with started(backend) as one, started(backend) as other:
        first, second = (Grader(session).load() for session in (one, other))
        files = "import fcntl, os, struct\nFILES = [0, os.open('/dev/null', os.O_RDWR), os.open(os.__file__, 0)]\n"
        left = "for n in FILES: fcntl.fcntl(n, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 666, 1, 0))"
        first.ask(files + left + "\nimport time\ntime.sleep(0.1)\nanswer = 1")
        look = """
answer = []
for n in FILES:
    lock = fcntl.fcntl(n, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 666, 1, 0))
    kind, _, start, length, _ = struct.unpack('hhqqi4x', lock)
    answer.append(kind != fcntl.F_UNLCK and (start, length) == (666, 1))
"""
        assert second.ask(files + look) == [False] * 3


_COUNTS_SIGNALS = """
import os
import signal

COUNT = [0]

def count(number, frame):
    COUNT[0] += 1

for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD):
    signal.signal(number, count)

async def grade(thread):
    before = COUNT[0]
    os.kill(os.getpid(), signal.SIGUSR1)  # its own handlers are there
    own = COUNT[0] - before
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD, signal.SIGRTMAX):
        os.kill(os.getppid(), number)
    return 100.0 * own + before
"""


@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_no_completion_reaches_another_by_a_signal_to_what_loaded_the_grader(isolation: str, loads: Loads) -> None:
    grader = loads(_COUNTS_SIGNALS, isolation=isolation)
    for _ in range(2):
        scores = [outcome.score for outcome in grader.score("a", "b", "c")]
        assert scores == ([100.0, 101.0, 102.0] if isolation == "batch" else [100.0] * 3)
        grader.session.reset()
        grader.session.settle()


def test_where_memory_is_shared_nobody_inside_can_write_it(loads: Loads) -> None:
    """A container has /proc, through which a file open for reading can be opened again."""
    grader = loads(f"SIZE = {SHARED_BYTES}\n{_REOPENS}", isolation="batch")
    outcome = grader.score("x")[0]
    assert outcome.reason == "[]"


_REOPENS = """
import json, os, stat
from gradebox import Score

def attempts():
    yield from (f"/proc/self/fd/{number}" for number in range(128))
    yield from (f"/proc/1/fd/{number}" for number in range(32))
    if os.path.exists("/proc/self/map_files"):
        try:
            yield from ("/proc/self/map_files/" + name for name in os.listdir("/proc/self/map_files"))
        except OSError:
            pass

async def grade(thread):
    opened = []
    for path in attempts():
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            continue
        status = os.fstat(descriptor)
        for harm in (lambda: os.pwrite(descriptor, b"forged", 0), lambda: os.ftruncate(descriptor, 0)):
            if stat.S_ISREG(status.st_mode) and status.st_size == SIZE:
                try:
                    harm()
                    opened.append(path)
                except OSError:
                    pass
        os.close(descriptor)
    return Score(1.0, reason=json.dumps(opened))
"""
