"""Tests that a package whose import attacks can do and read no more than any other code in a sandbox."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from tests.wheels import make_wheel
from tests.worker.environments.conftest import Builds

pytestmark = pytest.mark.sandbox

_TRIES = """
def tried(**attempts):
    found = {}
    for name, attempt in attempts.items():
        try:
            found[name] = repr(attempt())
        except BaseException as error:
            found[name] = type(error).__name__
    return found
"""
_WRITES = """
import os
from attack.tries import tried
FOLDER = os.path.dirname(__file__)
FOUND = tried(
    append=lambda: open(__file__, "a"),
    truncate=lambda: os.truncate(__file__, 0),
    new=lambda: open(FOLDER + "/new.py", "w"),
    beside=lambda: open("/usr/lib/environment/json.py", "w"),
    folder=lambda: os.mkdir(FOLDER + "/more"),
    remove=lambda: os.unlink(__file__),
    rename=lambda: os.rename(__file__, FOLDER + "/other.py"),
    link=lambda: os.symlink("/etc", FOLDER + "/etc"),
    mode=lambda: os.chmod(__file__, 0o777),
    times=lambda: os.utime(__file__, (1, 1)),
    owner=lambda: os.chown(__file__, os.getuid(), os.getgid()),
    label=lambda: os.setxattr(__file__, "user.message", b"x"),
)
"""
_READS = """
import os
from attack.tries import tried
FOUND = tried(
    passwd=lambda: open("/etc/shadow").read(),
    home=lambda: os.listdir("/root") + os.listdir("/home"),
    host=lambda: os.listdir({unpacked!r}),
    processes=lambda: open("/proc/1/environ", "rb").read() or 1 / 0,
    run=lambda: os.execv(__file__, ["attack"]),
)
FOUND["lib"] = sorted(os.listdir("/usr/lib/environment"))
"""
_REACHES = """
import ctypes, os, socket
from attack.tries import tried
libc = ctypes.CDLL(None, use_errno=True)

def traced(request, pid):
    if libc.ptrace(request, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")

FOUND = tried(
    attach=lambda: traced(16, 1),
    seize=lambda: traced(0x4206, os.getppid()),
    kill=lambda: os.kill(1, 9) or (os.kill(1, 0), 1 / 0),
    network=lambda: socket.create_connection(("127.0.0.1", 80), 1),
    packets=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53)),
    mount=lambda: libc.mount(b"none", b"/usr/lib/environment", b"tmpfs", 0, None) and 1 / 0,
    namespace=lambda: libc.unshare(0x10000000) and 1 / 0,
)
"""
_FORKS = """
import os, time
FOUND = {}
for _ in range(100):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
    except OSError as error:
        FOUND["stopped"] = type(error).__name__
        break
"""
_GRADER = """
import json
import attack.{name} as attack
from gradebox import Score

async def grade(thread):
    return Score(1.0, reason=json.dumps(attack.FOUND))
"""
_SHADOWED = ("json", "random", "re", "zlib", "_socket", "asyncio", "gradebox", "adaptive_harmony")
_TRAPS = ("sandbox", "validators", "dotpromptz_handlebars", "start", "zygote")  # names of the guest's in the repository
_NAMES_WHO = """
import json, sys
import {names}
from gradebox import Score

async def grade(thread):
    found = {{name: getattr(sys.modules[name], "__file__", None) for name in {names!r}.split(", ")}}
    found["shadows"] = [name for name, module in sys.modules.items() if getattr(module, "SHADOW", False)]
    return Score(1.0, reason=json.dumps(found))
"""


_OF_PROGRAM = """
import json, subprocess, sys
from gradebox import Score

async def grade(thread):
    program = "import sys; print(sys.modules['_gradebox.child.seeding'].__file__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return Score(1.0, reason=json.dumps([done.stderr, done.stdout]))
"""


@pytest.fixture(scope="session")
def attacker(builds: Builds, unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SHA-256 of a hostile environment."""
    wheels = tmp_path_factory.mktemp("hostile")
    files = {
        "attack/__init__.py": "",
        "attack/tries.py": _TRIES,
        "attack/writes.py": _WRITES,
        "attack/reads.py": _READS.format(unpacked=str(unpacked)),
        "attack/reaches.py": _REACHES,
        "attack/forks.py": _FORKS,
        "attack/hangs.py": "while True: pass\n",
        "attack/grows.py": "held = bytearray(1 << 30)\n",
        "attack/leaves.py": "import os\nos._exit(0)\n",
        "attack/dies.py": "import ctypes\nctypes.string_at(0)\n",
        "attack/deep.py": "x = " + "(" * 5000 + ")" * 5000 + "\n",
        "attack/null.py": "x = 1\0\n",
        "attack/__pycache__/tries.cpython-311.pyc": "not what its source says",
        "attack.pth": "import os; os._exit(1)\n",
        "sitecustomize.py": "import os; os._exit(1)\n",
        "usercustomize.py": "import os; os._exit(1)\n",
        "attack-1.0.data/scripts/attack": "#!/bin/sh\nexit 1\n",
    }
    shadows = {f"{name}.py": "SHADOW = True\n" for name in (*_SHADOWED, *_TRAPS, "_gradebox")}
    make_wheel(wheels, "attack", files | shadows)
    return builds(wheels, ["attack"]).sha256


def _found(pool: Pool, sha256: str, source: str) -> Any:
    with pool.grading(GraderSource(source, "completion", environment=sha256)) as grading:
        outcomes = grading.score(b'{"completion": "a"}\n{"completion": "b"}\n', 0, "attack@1")
    for outcome in outcomes:
        assert outcome.score == 1.0, outcome
    assert outcomes[0].reason is not None
    return json.loads(outcomes[0].reason)


@pytest.mark.parametrize("name", ["writes", "reads", "reaches"])
def test_an_import_gets_nowhere(anywhere: Pool, attacker: str, name: str) -> None:
    found = _found(anywhere, attacker, _GRADER.format(name=name))

    listed = found.pop("lib", [])
    assert {name: what for name, what in found.items() if not what.endswith("Error")} == {}
    assert not {"attack.pth", "sitecustomize.py", "usercustomize.py", "bin"} & set(listed)


def test_processes_that_an_import_starts_are_bounded_and_end(anywhere: Pool, attacker: str) -> None:
    assert _found(anywhere, attacker, _GRADER.format(name="forks")) == {"stopped": "BlockingIOError"}


def test_a_package_shadows_no_module_of_ours_or_of_python(anywhere: Pool, attacker: str) -> None:
    names = ", ".join(_SHADOWED)
    found = _found(anywhere, attacker, _NAMES_WHO.format(names=names))

    assert found.pop("shadows") == []
    own = {name: found[name] for name in ("gradebox", "adaptive_harmony")}
    assert all(path.startswith("/usr/lib/gradebox/") for path in own.values()), own
    assert not any((path or "").startswith("/usr/lib/environment") for path in found.values()), found


def test_nor_in_programs_that_a_grader_starts(anywhere: Pool, attacker: str) -> None:
    seeding = "/usr/lib/gradebox/.programs/_gradebox/child/seeding.py"
    assert _found(anywhere, attacker, _OF_PROGRAM) == ["", f"{seeding}\n"]


# The guest, which is the same on every backend, bounds the load and tells how it ended.
@pytest.mark.parametrize("anywhere", ["bubblewrap"], indirect=True)
@pytest.mark.parametrize(
    ("name", "message"), [("hangs", "did not end within"), ("grows", "emory"), ("leaves", "ended"), ("dies", "SIGSEGV")]
)
def test_an_import_that_does_not_end_well_fails_the_check(
    anywhere: Pool, attacker: str, name: str, message: str
) -> None:
    report = anywhere.prove(GraderSource(_GRADER.format(name=name), environment=attacker, memory_mb=256))
    assert report.failed is not None
    assert (report.failed.name, message in report.failed.message) == ("execution", True), report.failed


def test_what_cannot_be_compiled_stays_source(unpacked: Path, attacker: str) -> None:
    compiled = {path.name.partition(".")[0] for path in (unpacked / attacker / "attack/__pycache__").iterdir()}
    assert {"tries", "writes", "reads"} <= compiled
    assert not {"deep", "null"} & compiled
    assert not any(path.stat().st_mode & 0o133 for path in (unpacked / attacker).rglob("*") if path.is_file())
