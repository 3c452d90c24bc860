"""`gradebox doctor`: which layers of isolation are in force here. Each is tried in a real sandbox, not looked up."""

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grader_source import GraderSource
from sandbox.limits import LINE_BYTES, STDOUT_BYTES, limits_of
from sandbox.outcomes import Decoder
from sandbox.session import Ended, Session
from sandbox.settings import SandboxSettings

# Runs in the sandbox: tries what must not work, and says of each whether it was refused.
_PROBE = """
import errno, os, socket, json
from gradebox import Score

def refused(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.ENOENT)
    return False

async def grade(thread: StringThread) -> float:
    tried = {
        "network": refused(lambda: socket.socket(socket.AF_INET)),
        "read_only": refused(lambda: open("/usr/written", "w")),
        "environment": not set(os.environ) - {
            "PATH", "HOME", "LANG", "TZ", "PWD", "LC_CTYPE",
            "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX",
        },
        "processes": os.getpid() < 100 and not os.path.exists("/proc/1"),
        "nobody": os.getuid() == 65534,
        "scratch": not refused(lambda: open("/tmp/written", "w")),
    }
    return Score(1.0, reason=json.dumps(tried))
"""


@dataclass(frozen=True)
class Layer:
    """One layer: whether it is in force, what was seen, and how to get it. Safety holds without one not `needed`."""

    name: str
    in_force: bool
    seen: str
    needed: bool = True
    fix: str = ""


def examine(settings: SandboxSettings) -> list[Layer]:
    """Tries every layer of the bubblewrap backend."""
    try:
        backend = Bubblewrap(settings)
        try:
            return [*_kernel(), *_inside(backend), _cgroups(backend)]
        finally:
            backend.close()
    except (IsolationUnavailable, InfrastructureError, Ended) as error:
        return [*_kernel(), Layer("a sandbox by bubblewrap", False, str(error), fix=_NAMESPACES)]


_NAMESPACES = (
    "Ordinary users must be allowed user namespaces: `sysctl -w user.max_user_namespaces=15000`, where it exists "
    "`sysctl -w kernel.unprivileged_userns_clone=1`, on Ubuntu "
    "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` "
    "or an AppArmor profile for bwrap that has `userns,`. Inside a container: run it with `--security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined`."
)


def _kernel() -> Iterator[Layer]:
    yield Layer("Linux kernel", platform.system() == "Linux", platform.release(), fix="Sandboxes need Linux.")
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        yield Layer("no restriction by AppArmor", False, f"{restricted} is 1", needed=False, fix=_NAMESPACES)


def _inside(backend: Bubblewrap) -> Iterator[Layer]:
    session = Session(backend.start())
    try:
        tried = _try_inside(session)
        yield Layer("namespaces: user, pid, mount, net, ipc, uts, cgroup", True, "a sandbox was started")
        yield Layer("processes of its own, no /proc", tried["processes"], "seen from inside")
        yield Layer("seccomp: no sockets", tried["network"], "socket(AF_INET) from inside")
        yield Layer("read-only file system", tried["read_only"], "a write below /usr from inside")
        yield Layer("scratch /tmp", tried["scratch"], "a write from inside")
        yield Layer("nothing of the environment", tried["environment"], "seen from inside")
        yield Layer("an unprivileged user", tried["nobody"], "seen from inside")
        abi = session.landlock_abi
        yield Layer(
            "Landlock",
            abi > 0,
            f"version {abi} of its interface" if abi else "the kernel has none",
            needed=False,
            fix="Linux 5.13 or newer with `landlock` in the kernel parameter `lsm=`.",
        )
    finally:
        session.end()


def _try_inside(session: Session) -> dict[str, bool]:
    source = GraderSource(_PROBE, "completion")
    loaded = session.load(source, limits_of(source, 10.0, LINE_BYTES, STDOUT_BYTES))
    if loaded.isolation is None:
        raise Ended(f"the probe could not be loaded: {loaded.checks[-1].message}")
    decoder = Decoder("doctor", session.sandbox.ran_out_of_memory)
    for records in session.grade(b'{"completion": ""}', 1):
        for outcome in decoder.decode(records, 0):
            if outcome.reason is not None:
                return {name: answer is True for name, answer in json.loads(outcome.reason).items()}
            raise Ended(f"the probe failed: {outcome.error}")
    raise Ended("the probe gave no answer")


def _cgroups(backend: Bubblewrap) -> Layer:
    if backend.cgroups is not None:
        return Layer("control groups", True, f"version {backend.cgroups.version}, writable", needed=False)
    return Layer(
        "control groups",
        False,
        "not writable: memory is watched by the service instead, each 50 ms",
        needed=False,
        fix="Run as root, or have systemd delegate them: `systemd-run --user -p Delegate=yes gradebox serve`.",
    )


def main() -> int:
    """Prints what was found. Returns 0 when a backend is safe, else 1."""
    parser = argparse.ArgumentParser(prog="gradebox doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print machine-readable output")
    arguments = parser.parse_args()
    layers = examine(SandboxSettings())
    safe = all(layer.in_force for layer in layers if layer.needed)
    if arguments.json:
        told = {"safe": safe, "backends": {"bubblewrap": [asdict(layer) for layer in layers]}}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        _show(layers, safe)
    return 0 if safe else 1


def _show(layers: list[Layer], safe: bool) -> None:
    console = Console()
    table = Table("layer", "in force", "seen", title="backend bubblewrap", title_justify="left")
    for layer in layers:
        mark = "[green]yes[/]" if layer.in_force else "[red]no[/]" if layer.needed else "[yellow]no[/]"
        table.add_row(layer.name, mark, layer.seen)
    console.print(table)
    for layer in layers:
        if not layer.in_force:
            console.print(f"[bold]{layer.name}[/]: {layer.fix}", soft_wrap=True)
    console.print("Safe: graders can run here." if safe else "[red]Not safe: the service refuses to start here.[/]")


if __name__ == "__main__":
    sys.exit(main())
