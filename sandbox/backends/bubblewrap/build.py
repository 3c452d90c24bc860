"""One run of bubblewrap: it makes namespaces and mounts, and starts a program there.

Every argument has been tried against hostile graders; what surprised about them is said beside them.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence

from sandbox import image, limits
from sandbox.backends.base import AT_START
from sandbox.backends.bubblewrap.first import First
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.image import Image

START_S = 10.0  # for whatever is started here


class Build(First):
    """What bubblewrap has made: namespaces, mounts, and in them a first process, which waits until `go`.

    Attributes:
        bubblewrap: the process outside, which waits for the first one inside to end.
    """

    def __init__(self, command: list[str], program: Sequence[str], stdin: socket.socket, filter_file: int = -1) -> None:
        """`filter_file` holds a seccomp program.

        Raises:
            InfrastructureError: it was not made; the message has bubblewrap's own complaint.
        """
        info, info_in = os.pipe2(os.O_CLOEXEC)
        block, self._block = os.pipe2(os.O_CLOEXEC)
        told = ["--info-fd", str(info_in), "--block-fd", str(block)]
        if filter_file >= 0:
            told += ["--seccomp", str(filter_file)]
        try:
            self.bubblewrap = subprocess.Popen(
                [*command, *told, "--", *program],
                stdin=stdin.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[end for end in (info_in, block, filter_file) if end >= 0],
                env=AT_START,
                cwd="/",
            )
            os.close(info_in)
            info_in = -1
            pid = _read_pid(info, self.bubblewrap)
            super().__init__(pid, os.pidfd_open(pid))
        except BaseException:
            os.close(self._block)
            raise
        finally:
            for end in (info, info_in, block):
                if end >= 0:
                    os.close(end)

    def go(self) -> None:
        """Lets the first process become the program."""
        with os.fdopen(self._block, "wb", buffering=0) as block:
            block.write(b"\n")

    def halt(self) -> None:
        """Waits until all is made, and stops the first process there.

        Raises:
            InfrastructureError: it was not made in time.
        """
        with os.fdopen(self._block, "wb", buffering=0) as block:
            block.write(b"\n")
            taken = select.poll()
            taken.register(block, 0)  # bubblewrap closes its end when it has read what keeps it, and that comes last
            if not taken.poll(START_S * 1000):
                raise InfrastructureError("a sandbox could not be started: bubblewrap has not made it in time")
        signal.pidfd_send_signal(self.pidfd, signal.SIGSTOP)

    def end(self) -> None:
        """Ends the first process, all others of its namespace, and bubblewrap. May be called twice."""
        if self.pidfd >= 0:
            super().end()
            self.bubblewrap.communicate()


def find(program: str, package: str) -> str:
    """Where a program is.

    Raises:
        IsolationUnavailable: it is not installed.
    """
    found = shutil.which(program)
    if found is None:
        raise IsolationUnavailable(
            f"`{program}` is not installed: `apt-get install {package}`, or your system's package of that name."
        )
    return found


def system(made: Image) -> list[str]:
    """The interpreter and the guest, to be read, and the one device that programs cannot do without."""
    return [
        "--ro-bind", str(made.root), "/",
        "--ro-bind", str(made.guest), str(image.GUEST),
        "--dev-bind", "/dev/null", "/dev/null",
    ]  # fmt: skip


def scratch(size: int) -> list[str]:
    """Folders to be written. Without a size, each would be half of the machine's memory."""
    return [
        "--perms", "0700", "--size", str(size), "--tmpfs", "/tmp",
        "--perms", "0700", "--size", str(limits.SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm",
    ]  # fmt: skip


def isolation() -> list[str]:
    """What keeps a sandbox to itself."""
    return [
        "--remount-ro", "/",
        "--chdir", "/tmp",
        # --disable-userns needs the explicit --unshare-user
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        *_without_nesting(),
        # bubblewrap's own pid 1 would show the host's environment in /proc, and would be killable from inside
        "--as-pid-1",
        "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--cap-drop", "ALL",
        "--new-session",  # TIOCSTI
        "--die-with-parent",
    ]  # fmt: skip


def _without_nesting() -> list[str]:
    """No user namespaces inside: the filter refuses them too. The closed /proc of a container cannot be told so."""
    return [] if os.statvfs("/proc/sys/user").f_flag & os.ST_RDONLY else ["--disable-userns"]


def _read_pid(info: int, process: subprocess.Popen[bytes]) -> int:
    """The pid of the first process inside, which bubblewrap tells once the namespaces are made."""
    told = b""
    deadline = time.monotonic() + START_S
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
