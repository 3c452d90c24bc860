"""Tests the attacks when an ordinary user runs the service: without control groups, with a single user id.

With Docker this user may use the engine, and nothing bypasses the engine.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.backends import NAMES, OF_ISOLATION, backend_of, selftest, settings_for

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]
_HERE = Path(__file__).parent
_USER = 65533


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that other users can read. Each run of pytest closes its temporary folders to other users.

    All tests share the home in it, where the first one makes the user's image of the sandbox.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite runs as an ordinary user already")
@pytest.mark.parametrize("backend", NAMES)
def test_an_ordinary_user_is_as_safe(backend: str, open_folder: Path) -> None:
    backend_of(backend)(settings_for(backend)).close()  # skips the test if the backend is unavailable
    # The engine makes the same container for every user, so for Docker it is enough that this user's are isolated too.
    # Without a container or a control group, the guest bounds memory and processes, which some module bodies exceed.
    kinds = {"calls"} if backend == "docker" else OF_ISOLATION | {"module"}
    done = _run_as_ordinary_user(["-m", "gradebox", *selftest(kinds), "--backend", backend], backend, open_folder)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["user"] == _USER
    assert result["breaches"] == []
    assert result["tried"].keys() == kinds
    assert sum(result["tried"].values()) >= (5 if backend == "docker" else 140)


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite runs as an ordinary user already")
def test_an_ordinary_user_has_a_zygote_and_packages_that_attack_get_nowhere(open_folder: Path) -> None:
    """The sandboxes run as the ordinary user, who owns the folder of the packages."""
    files = ["tests/sandbox/backends/test_bubblewrap.py", "tests/worker/environments/test_attacks.py"]
    # What comes of an import that hangs or dies depends on the guest alone, and of a removed file not on the user.
    selected = "not docker and not does_not_end_well and not somebody_removes"
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", selected]
    done = _run_as_ordinary_user(tests, "bubblewrap", open_folder)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skipped  # only the tests of root's sandboxes
    assert all("an ordinary user" in line for line in skipped), skipped


def _run_as_ordinary_user(arguments: list[str], backend: str, open_folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python as a user without privileges."""
    home = open_folder / "home"
    home.mkdir(exist_ok=True)
    os.chown(home, _USER, _USER)
    root = _HERE.parent.parent
    command = [
        *("setpriv", "--reuid", str(_USER), "--regid", str(_USER), *_groups(backend), "--"),
        *("env", "-i", f"HOME={home}", f"TMPDIR={home}", "PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", *_engine()),
        sys.executable,
        *arguments,
    ]
    script = [*_open_homes([root, Path(sys.prefix), Path(sys.base_prefix)], open_folder), ["cd", str(root)], command]
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(map(shlex.join, script))]
    return subprocess.run(inside, capture_output=True, text=True)


def _groups(backend: str) -> list[str]:
    """The options of `setpriv` for groups: none; for Docker the group that may use the engine."""
    if backend != "docker":
        return ["--clear-groups"]
    socket = Path(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"))
    return ["--groups", str(socket.stat().st_gid)]


def _engine() -> list[str]:
    return [f"DOCKER_HOST={os.environ['DOCKER_HOST']}"] if "DOCKER_HOST" in os.environ else []


def _open_homes(needed: Iterable[Path], aside: Path) -> list[list[str]]:
    """Commands for a new mount namespace. They make `needed` visible below home folders that are closed to others."""
    there = {path: folder for path in needed if (folder := _closed(path)) is not None}
    keep = [["mount", "--bind", str(path), str(aside / f"kept-{number}")] for number, path in enumerate(there)]
    hide = [["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(folder)] for folder in set(there.values())]
    show = []
    for number, path in enumerate(there):
        (aside / f"kept-{number}").mkdir(exist_ok=True)
        show += [["mkdir", "-p", str(path)], ["mount", "--bind", str(aside / f"kept-{number}"), str(path)]]
    return keep + hide + show


def _closed(path: Path) -> Path | None:
    """The outermost ancestor that other users may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
