"""Tests what code in a real sandbox can do, with the same probe for every backend."""

import json
from collections.abc import Iterator

from gradebox.limits import LINE_BYTES
from sandbox.backends.base import Backend
from sandbox.doctor.layer import Layer
from sandbox.grader_source import GraderSource
from sandbox.grading.channel import Ended
from sandbox.grading.outcomes import Decoder
from sandbox.grading.session import Session
from sandbox.limits import STDOUT_BYTES, limits_of

# Tries operations that must fail (a write to /tmp must succeed), and reports for each whether the result is right.
_PROBE = """
import errno, os, socket, json
from gradebox import Score

def refused(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.ENOENT)
    return False

def others():
    found = 0
    for pid in range(1, 5000):
        try:
            os.kill(pid, 0)
            found += 1
        except ProcessLookupError:
            pass
    return found

async def grade(thread: StringThread) -> float:
    tried = {
        "network": refused(lambda: socket.socket(socket.AF_INET)),
        "read_only": refused(lambda: open("/usr/written", "w")),
        "environment": not set(os.environ) - {
            "PATH", "HOME", "USER", "LANG", "TZ", "TZDIR", "PWD", "LC_CTYPE",
            "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX",
        },
        "processes": others() <= 4,
        "proc": refused(lambda: os.listdir("/proc")) and refused(lambda: os.listdir("/sys/class")),
        "nobody": min(os.getresuid() + os.getresgid()) >= 1000 and refused(lambda: os.setuid(0)),
        "scratch": not refused(lambda: open("/tmp/written", "w")),
    }
    return Score(1.0, reason=json.dumps(tried))
"""
_LANDLOCK = "Linux 5.13 or newer with `landlock` in the kernel parameter `lsm=`."


def examine(backend: Backend, processes: int) -> Iterator[Layer]:
    """The layers of this backend, as seen by a grader that may start so many processes.

    Raises:
        InfrastructureError: no sandbox could be started.
        Ended: one was started, but the probe could not be run in it.
    """
    session = Session(backend.start())
    try:
        tried = _run(session, processes)
        yield Layer("a sandbox, and a grader in it", True, "one was started, and graded")
        yield Layer("processes of its own", tried["processes"], "a look for others from inside")
        # An engine puts a /proc and a /sys into every container; Landlock closes them.
        closed = backend.name == "bubblewrap"
        yield Layer("no /proc, no /sys", tried["proc"], "a look from inside", needed=closed, fix=_LANDLOCK)
        yield Layer("seccomp: no sockets", tried["network"], "socket(AF_INET) from inside")
        yield Layer("read-only file system", tried["read_only"], "a write below /usr from inside")
        yield Layer("scratch /tmp", tried["scratch"], "a write from inside")
        yield Layer("nothing of the environment", tried["environment"], "seen from inside")
        yield Layer("an unprivileged user", tried["nobody"], "setuid(0) from inside")
        abi = session.landlock_abi
        seen = f"version {abi} of its interface" if abi else "the sandbox's kernel has none"
        yield Layer("Landlock inside", abi > 0, seen, needed=False, fix=_LANDLOCK)
    finally:
        session.end()


def _run(session: Session, processes: int) -> dict[str, bool]:
    source = GraderSource(_PROBE, "completion")
    loaded = session.load(source, limits_of(source, 10.0, LINE_BYTES, STDOUT_BYTES, processes=processes))
    if loaded.isolation is None:
        raise Ended(f"the probe could not be loaded: {loaded.checks[-1].message}")
    decoder = Decoder("doctor", session.limits, session.sandbox.ran_out_of_memory)
    for records in session.grade(b'{"completion": ""}', 1):
        for outcome in decoder.decode(records, 0, [None] * records.number):
            if outcome.reason is not None:
                return {name: answer is True for name, answer in json.loads(outcome.reason).items()}
            raise Ended(f"the probe failed: {outcome.error}")
    raise Ended("the probe gave no answer")
