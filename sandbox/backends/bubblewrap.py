"""Sandboxes by bubblewrap: Linux namespaces, a seccomp filter, and nothing of the host but a copy of the interpreter.

Every argument has been tried against hostile graders; what surprised about them is said beside them.
"""

import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress

from sandbox import image, limits, seccomp
from sandbox.backends.base import AT_START, COMMAND
from sandbox.cgroups import Cgroup, Cgroups
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.monitor import Monitor
from sandbox.settings import SandboxSettings

_START_S = 10.0
_OUTSIDE = 1  # bubblewrap itself, which waits for pid 1


class BubblewrapSandbox:
    """One running sandbox."""

    takes_descriptors = True

    def __init__(
        self, process: subprocess.Popen[bytes], channel: socket.socket, cgroup: Cgroup | None, monitor: Monitor
    ) -> None:
        self.channel = channel
        self._process = process
        self._cgroup = cgroup
        self._monitor = monitor
        self._pidfd = -1
        self._killed_for_memory = False
        self.pid = 0
        self.memory_bytes = 0

    def hold(self, pid: int) -> None:
        """Takes hold of the sandbox's pid 1: when it is killed, the kernel kills all that lives in its namespace."""
        self._pidfd = os.pidfd_open(pid)
        self.pid = pid
        if self._cgroup is None:
            self._monitor.watch(self)

    def allow_memory(self, mebibytes: int) -> None:
        """Bounds all processes together: by a control group where there is one, else by the monitor."""
        self.memory_bytes = mebibytes << 20
        if self._cgroup is not None:
            self._cgroup.allow_memory(mebibytes)

    def ran_out_of_memory(self) -> bool:
        """Whether a process was ended for memory since the last call."""
        return self._killed_for_memory or (self._cgroup is not None and self._cgroup.ran_out_of_memory())

    def kill_for_memory(self) -> None:
        """What the monitor does to a sandbox that wants too much."""
        self._killed_for_memory = True
        self._kill()

    def _kill(self) -> None:
        if self._pidfd < 0:
            self._process.kill()
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def end(self) -> None:
        """Kills everything inside and gives back all that the sandbox held."""
        self._monitor.forget(self)
        self._kill()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self.channel.close()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None


class Bubblewrap:
    """Starts sandboxes on this machine."""

    name = "bubblewrap"

    def __init__(self, settings: SandboxSettings) -> None:
        """Raises IsolationUnavailable where a layer that safety needs is missing."""
        self._settings = settings
        self._program = _find("bwrap", "bubblewrap")
        self._setpriv = _find("setpriv", "util-linux") if os.geteuid() == 0 else None
        seccomp.program()
        self._image = image.build(settings.image_dir)
        self.cgroups = Cgroups.find()
        if self.cgroups is not None:
            self.cgroups.remove_stale()
        self._monitor = Monitor()
        self._monitor.start()

    def close(self) -> None:
        """Ends the monitor."""
        self._monitor.end()

    def start(self) -> BubblewrapSandbox:
        """A new sandbox; its supervisor is about to say that it is ready."""
        ours, theirs = socket.socketpair()
        info, info_in = os.pipe2(os.O_CLOEXEC)
        block_out, block = os.pipe2(os.O_CLOEXEC)
        filter_file = seccomp.program_file()
        sandbox = cgroup = None
        try:
            cgroup = self._make_cgroup()
            command = self._command(filter_file, info_in, block_out)
            process = subprocess.Popen(
                command if cgroup is None else cgroup.joined(command),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(filter_file, info_in, block_out),
                env=AT_START,
                cwd="/",
            )
            os.close(info_in)
            info_in = -1
            sandbox = BubblewrapSandbox(process, ours, cgroup, self._monitor)
            sandbox.hold(_read_pid(info, process))
            os.write(block, b"\n")
        except (OSError, InfrastructureError) as error:
            if sandbox is not None:
                sandbox.end()
            elif cgroup is not None:
                cgroup.remove()
            if isinstance(error, InfrastructureError):
                raise
            raise InfrastructureError(f"a sandbox could not be started: {error}") from error
        finally:
            theirs.close()
            for descriptor in (info, info_in, block_out, block, filter_file):
                if descriptor >= 0:
                    os.close(descriptor)
        return sandbox

    def _make_cgroup(self) -> Cgroup | None:
        if self.cgroups is None:
            return None
        return self.cgroups.make(limits.PROCESSES + limits.OWN_PROCESSES + _OUTSIDE)

    def _command(self, filter_file: int, info: int, block: int) -> list[str]:
        return [*self._become_nobody(), self._program, *self._mounts(), *_isolation(filter_file, info, block), "--",
                *COMMAND]  # fmt: skip

    def _become_nobody(self) -> list[str]:
        """As root, a user id of the sandbox's own first: the kernel counts no processes of root."""
        if self._setpriv is None:
            return []
        uid = str(self._settings.first_uid + secrets.randbelow(50_000))
        return [self._setpriv, "--reuid", uid, "--regid", uid, "--clear-groups", "--"]

    def _mounts(self) -> list[str]:
        return [
            "--ro-bind", str(self._image.root), "/",
            "--ro-bind", str(self._image.guest), str(image.GUEST),
            "--dev-bind", "/dev/null", "/dev/null",
            # Without a size, each would be half of the machine's memory.
            "--perms", "0700", "--size", str(self._settings.scratch_bytes), "--tmpfs", "/tmp",
            "--perms", "0700", "--size", str(limits.SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm",
            "--remount-ro", "/",
            "--chdir", "/tmp",
        ]  # fmt: skip


def _isolation(filter_file: int, info: int, block: int) -> list[str]:
    return [
        # --disable-userns needs the explicit --unshare-user
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        *_without_nesting(),
        # bubblewrap's own pid 1 would show the host's environment in /proc, and would be killable from inside
        "--as-pid-1",
        "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--cap-drop", "ALL",
        "--new-session",  # TIOCSTI
        "--die-with-parent",
        "--seccomp", str(filter_file), "--info-fd", str(info), "--block-fd", str(block),
    ]  # fmt: skip


def _without_nesting() -> list[str]:
    """No user namespaces inside: the filter refuses them too. The closed /proc of a container cannot be told so."""
    return [] if os.statvfs("/proc/sys/user").f_flag & os.ST_RDONLY else ["--disable-userns"]


def _find(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise IsolationUnavailable(
            f"`{program}` is not installed: `apt-get install {package}`, or your system's package of that name."
        )
    return found


def _read_pid(info: int, process: subprocess.Popen[bytes]) -> int:
    """The pid of the sandbox's pid 1, which bubblewrap tells once the namespaces are made."""
    told = b""
    deadline = time.monotonic() + _START_S
    while not told.rstrip().endswith(b"}"):
        ready, _, _ = select.select([info], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(info, 4096) if ready else b""
        if not part:
            raise InfrastructureError(f"a sandbox could not be started: {_complaint(process)}")
        told += part
    return int(json.loads(told)["child-pid"])


def _complaint(process: subprocess.Popen[bytes]) -> str:
    process.kill()
    _, complaint = process.communicate()
    text = complaint.decode("utf-8", "replace").strip()[:500]
    return f"{text}.{_advice(text)}" if text else "bubblewrap did not answer in time"


def _advice(complaint: str) -> str:
    """What to do about bubblewrap's commonest complaints."""
    if "Permission denied" in complaint and "uid map" in complaint:
        return (
            " AppArmor keeps ordinary users from user namespaces here: "
            "run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap a profile that allows them."
        )
    if "namespace" in complaint:
        return (
            " User namespaces are off: run `sysctl -w user.max_user_namespaces=15000` "
            "(and `kernel.unprivileged_userns_clone=1` where it exists); inside a container they need its permission."
        )
    return ""
