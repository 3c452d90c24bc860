"""Tests what this machine's kernel lets this user do: each test runs in a separate process, which may not return."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sandbox.doctor.layer import Layer
from sandbox.errors import IsolationUnavailable
from sandbox.kernel import seccomp
from sandbox.kernel.cgroups import Cgroups

NAMESPACES = (
    "Ordinary users must be allowed user namespaces: `sysctl -w user.max_user_namespaces=15000`, where it exists "
    "`sysctl -w kernel.unprivileged_userns_clone=1`. Inside a container: run it with `--security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined`, or let it use the Docker backend."
)
_APPARMOR = (
    "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` (in /etc/sysctl.d to last), or a profile for bwrap "
    "that has `userns,`: in /etc/apparmor.d/bwrap `abi <abi/4.0>, profile bwrap /usr/bin/bwrap flags=(unconfined) "
    "{ userns, }`, then `apparmor_parser -r /etc/apparmor.d/bwrap`."
)
_LANDLOCK = "Linux 5.13 or newer with `landlock` in the kernel parameter `lsm=` (see /sys/kernel/security/lsm)."
_SECCOMP = "A kernel with CONFIG_SECCOMP_FILTER; inside a container, a runtime that lets filters be laid on."
_ROOMS = Path(__file__).parents[2]
_TRY_S = 20.0

_UNSHARE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flags in FLAGS:
    if libc.unshare(flags):
        raise SystemExit(os.strerror(ctypes.get_errno()))
"""
_USER, _NET_AND_MOUNT = 0x10000000, 0x40000000 | 0x00020000
_FILTER = """
import socket, sys
from sandbox.guest.kernel import lockdown
lockdown.filter_calls(sys.stdin.buffer.read())
try:
    socket.socket(socket.AF_INET)
except PermissionError:
    sys.exit(0)
sys.exit("the filter was taken, and a socket was opened all the same")
"""
_RESTRICT = """
import sys
from sandbox.guest.kernel import lockdown
if not lockdown.landlock_abi():
    sys.exit("the kernel has none, or it is off")
lockdown.restrict_files()
try:
    open("/proc/self/status")
except PermissionError:
    sys.exit(0)
sys.exit("rules were taken, and a file was read all the same")
"""


def examine() -> Iterator[Layer]:
    """The layers of this machine that every backend is built on."""
    yield Layer("Linux kernel", platform.system() == "Linux", platform.release(), fix="Sandboxes need Linux.")
    yield from _user_namespaces()
    yield _seccomp()
    why = _attempt(_RESTRICT)
    yield Layer("Landlock", not why, why or "a file was refused to a process of ours", needed=False, fix=_LANDLOCK)


def _user_namespaces() -> Iterator[Layer]:
    why = _attempt(_UNSHARE.replace("FLAGS", f"({_USER},)"))
    # A setuid bubblewrap works without them: the start of a sandbox decides.
    yield Layer("user namespaces", not why, why or "one was made", needed=False, fix=NAMESPACES)
    if why:
        return
    why = _attempt(_UNSHARE.replace("FLAGS", f"({_USER}, {_NET_AND_MOUNT})"))
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    setting = f"{restricted} is {restricted.read_text().strip()}" if restricted.exists() else "this kernel has none"
    name = "no restriction of user namespaces by AppArmor"
    yield Layer(name, not why, f"{why}: {setting}" if why else f"others were made in it; {setting}", False, _APPARMOR)


def _seccomp() -> Layer:
    try:
        program = seccomp.program()
    except IsolationUnavailable as error:
        return Layer("seccomp", False, str(error), fix="`apt-get install libseccomp2`")
    why = _attempt(_FILTER, program)
    return Layer("seccomp", not why, why or "socket(AF_INET) was refused to a process of ours", fix=_SECCOMP)


def _attempt(code: str, given: bytes = b"") -> str:
    """Returns the reason why the code failed; empty if it succeeded."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            input=given,
            capture_output=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(_ROOMS)},
            timeout=_TRY_S,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TRY_S:g} s"
    if done.returncode == 0:
        return ""
    reported = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return reported[-1] if reported else f"the process ended with {done.returncode}"


def control_groups() -> Layer:
    """Tests whether a group can be made, a limit set and a process put into it."""
    name = "control groups"
    version = 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1
    found = Cgroups.find()
    if found is None:
        seen = f"version {version}, not delegated to this user: memory is watched by the service instead, each 50 ms"
        return Layer(name, False, seen, needed=False, fix=_DELEGATE[version])
    try:
        _put_one_in(found)
    except OSError as error:
        return Layer(name, False, f"version {found.version}: {error}", needed=False, fix=_DELEGATE[found.version])
    seen = f"version {found.version}, writable: a process was put into one"
    return Layer(name, True, seen, needed=False)


def _put_one_in(found: Cgroups) -> None:
    group = found.make(processes=8)
    try:
        group.allow_memory(64)
        done = subprocess.run(group.joined(["true"]), capture_output=True, text=True, timeout=_TRY_S, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip())
    finally:
        group.remove()


_DELEGATE = {
    1: "Version 1 is root's alone: run the service as root, or boot with `systemd.unified_cgroup_hierarchy=1`.",
    2: "Run as root, or have systemd delegate them: `systemd-run --user --scope -p Delegate=yes gradebox serve`; in a "
    "unit `Delegate=memory pids`.",
}
