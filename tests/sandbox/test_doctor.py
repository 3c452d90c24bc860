"""Tests of `python -m sandbox.doctor`: the layers in force, and advice for the others."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.backends import backend_of, settings_for

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).parents[2]
_INSIDE = {
    "a sandbox, and a grader in it",
    "processes of its own",
    "seccomp: no sockets",
    "read-only file system",
    "scratch /tmp",
    "nothing of the environment",
    "an unprivileged user",
}
_NEEDED = {
    "bubblewrap": {*_INSIDE, "Linux kernel", "seccomp", "no /proc, no /sys"},
    "docker": {*_INSIDE, "a Docker engine"},
}
_OTHERS = {
    "bubblewrap": {
        "user namespaces",
        "no restriction of user namespaces by AppArmor",
        "Landlock",
        "Landlock inside",
        "sandboxes forked from a zygote",
        "control groups",
    },
    "docker": {
        "no /proc, no /sys",
        "Landlock inside",
        "a socket to the guest",
        "control groups of containers",
        "a bound on processors",
        "AppArmor",
        "user namespaces of containers",
        "gVisor",
    },
}


def doctor(*arguments: str, within: tuple[str, ...] = (), **environment: Any) -> subprocess.CompletedProcess[str]:
    """Runs the doctor, as the last arguments of another command if there is one."""
    command = [*within, sys.executable, "-m", "sandbox.doctor", *arguments]
    environment = {**os.environ, "COLUMNS": "160", **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=120)


def layers_of(backend: str, is_safe: bool = True, **more: Any) -> dict[str, dict[str, Any]]:
    done = doctor("--json", GRADEBOX_BACKEND=backend, **more)
    told = json.loads(done.stdout)
    assert list(told["backends"]) == [backend]
    assert (told["safe"], done.returncode) == (is_safe, 0 if is_safe else 1)
    return {layer["name"]: layer for layer in told["backends"][backend]}


@pytest.mark.parametrize("backend", _NEEDED)
def test_every_layer_is_tried(backend: str) -> None:
    backend_of(backend)(settings_for(backend)).close()  # skips if it is unavailable
    layers = layers_of(backend)
    assert {name for name, layer in layers.items() if layer["needed"]} == _NEEDED[backend]
    assert set(layers) == _NEEDED[backend] | _OTHERS[backend]
    assert [name for name in _NEEDED[backend] if not layers[name]["in_force"]] == []
    assert all(layer["seen"] for layer in layers.values())
    assert all(layer["fix"] for layer in layers.values() if not layer["in_force"])
    if backend == "docker":
        assert layers["gVisor"]["in_force"] or "runsc install" in layers["gVisor"]["fix"]


def test_one_backend_that_is_safe_is_enough(tmp_path: Path) -> None:
    done = doctor(DOCKER_HOST=f"unix://{tmp_path}/nowhere.sock")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Safe: graders can run here, with bubblewrap (not with docker)." in done.stdout
    assert "usermod -aG docker" in done.stdout


def test_without_bubblewrap_or_docker_it_says_how_to_get_them(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/nowhere.sock"}
    done = doctor(**nothing)
    assert done.returncode == 1
    assert "Not safe: the service refuses to start here." in done.stdout
    assert "sysctl" not in done.stdout  # not the reason
    backends = json.loads(doctor("--json", **nothing).stdout)["backends"]
    for backend, what in (("bubblewrap", "apt-get install bubblewrap"), ("docker", "apt-get install docker.io")):
        (lacking,) = [layer for layer in backends[backend] if layer["needed"] and not layer["in_force"]]
        assert what in lacking["seen"] + lacking["fix"]


def test_namespaces_that_are_off_are_found_and_the_switch_is_named() -> None:
    off = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"'
    layers = layers_of("bubblewrap", False, within=("unshare", "--user", "--map-root-user", "sh", "-c", off))
    assert not layers["user namespaces"]["in_force"]
    assert "sysctl -w user.max_user_namespaces" in layers["user namespaces"]["fix"]
    assert not layers["a sandbox, and a grader in it"]["in_force"]
    assert layers["seccomp"]["in_force"]


def test_a_wrong_setting_is_named_in_one_line() -> None:
    done = doctor(GRADEBOX_LOAD_S="abc")
    assert done.returncode == 2
    assert done.stderr.startswith("gradebox: GRADEBOX_LOAD_S is invalid")
    assert len(done.stderr.splitlines()) == 1
