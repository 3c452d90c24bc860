"""`python -m sandbox.doctor`: what is in force here, and how to get what is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).parents[2]
_NEEDED = {
    "Linux kernel",
    "namespaces: user, pid, mount, net, ipc, uts, cgroup",
    "processes of its own, no /proc",
    "seccomp: no sockets",
    "read-only file system",
    "scratch /tmp",
    "nothing of the environment",
    "an unprivileged user",
}


def doctor(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"} | ({"PATH": path} if path is not None else {})
    command = [sys.executable, "-m", "sandbox.doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=60)


def test_it_is_safe_here() -> None:
    done = doctor()
    assert (done.returncode, done.stderr) == (0, "")
    assert "Safe: graders can run here." in done.stdout
    assert all(name in done.stdout for name in _NEEDED)


def test_every_layer_is_told_in_json() -> None:
    done = doctor("--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    layers = {layer["name"]: layer for layer in told["backends"]["bubblewrap"]}
    assert told["safe"] is True
    assert {name for name, layer in layers.items() if layer["needed"]} == _NEEDED
    assert all(layers[name]["in_force"] for name in _NEEDED)
    assert {"Landlock", "control groups"} <= set(layers)
    assert all(layer["fix"] for layer in layers.values() if not layer["in_force"])


def test_without_bubblewrap_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = doctor(path=str(tmp_path))
    assert done.returncode == 1
    assert "Not safe: the service refuses to start here." in done.stdout
    assert "bwrap" in done.stdout
    told = json.loads(doctor("--json", path=str(tmp_path)).stdout)
    lacking = [layer for layer in told["backends"]["bubblewrap"] if not layer["in_force"] and layer["needed"]]
    assert told["safe"] is False
    assert len(lacking) == 1
    assert "install" in (lacking[0]["seen"] + lacking[0]["fix"]).lower()
