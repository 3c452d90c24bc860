"""The same attacks where an ordinary user runs the service: no control groups, no user ids but one."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(400)]
_HERE = Path(__file__).parent
_USER = 65533


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite runs as an ordinary user already")
def test_an_ordinary_user_is_as_safe(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, _USER, _USER)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    root = _HERE.parent.parent
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/hostile"]
    command = [
        *("setpriv", "--reuid", str(_USER), "--regid", str(_USER), "--clear-groups", "--"),
        *("env", "-i", f"HOME={home}", f"TMPDIR={home}", "PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"),
        *(*suite, "--deselect", f"tests/hostile/{Path(__file__).name}"),
    ]
    script = [*_open_homes([root, Path(sys.prefix), Path(sys.base_prefix)], tmp_path), ["cd", str(root)], command]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(map(shlex.join, script))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout[-2000:]


def _open_homes(needed: Iterable[Path], aside: Path) -> list[list[str]]:
    """Commands for a mount namespace of the test's own: homes are closed to others, so one shows only what is needed."""
    there = {path: folder for path in needed if (folder := _closed(path)) is not None}
    keep = [["mount", "--bind", str(path), str(aside / f"kept-{number}")] for number, path in enumerate(there)]
    hide = [["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(folder)] for folder in set(there.values())]
    show = []
    for number, path in enumerate(there):
        (aside / f"kept-{number}").mkdir()
        show += [["mkdir", "-p", str(path)], ["mount", "--bind", str(aside / f"kept-{number}"), str(path)]]
    return keep + hide + show


def _closed(path: Path) -> Path | None:
    """The outermost folder on the way that others may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
