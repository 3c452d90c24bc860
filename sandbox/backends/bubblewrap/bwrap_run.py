"""One run of bubblewrap, which makes namespaces and mounts and starts a program in them.

Every argument has been tried against hostile graders; comments beside the arguments record the surprises.
"""

import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from sandbox import image, limits
from sandbox.backends.base import AT_START
from sandbox.backends.bubblewrap.first_process import FirstProcess
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.image import Image

START_S = 10.0  # for any process that is started here
_START_MS = START_S * 1000
_LAST_S = 1.0  # for bubblewrap to exit once it has nothing left to wait for
_EXIT_S = 0.05  # from the end of bubblewrap's pipes to its exit
_LOOK_S = 0.0003  # between two checks of a step that takes about 1 ms
_MOUNT_NULL = 'mount --bind /dev/null /dev/null && mount -o remount,bind,ro /dev/null && exec "$@"'
_NO_CAPABILITIES = f"\nCapEff:\t{0:016x}\n"


class BwrapRun(FirstProcess):
    """Namespaces and mounts made by bubblewrap, and in them a first process, which waits until `go`.

    Attributes:
        bubblewrap: the process outside, which waits for the first one inside to end.
    """

    def __init__(
        self,
        command: list[str],
        program: Sequence[str],
        stdin: socket.socket,
        filter_file: int = -1,
    ) -> None:
        """`filter_file` holds a seccomp program.

        Raises:
            InfrastructureError: bubblewrap failed; the message has its error output.
        """
        super().__init__(0, -1)
        (info, writing), (block, self._block) = _pipe(), _pipe()
        with writing:
            # It also reads. If this process is killed, nothing else does, and a bubblewrap that cannot write its report
            # would die and leave the first process, which waits for it.
            info_in = open(f"/proc/self/fd/{writing.fileno()}", "r+b", buffering=0)  # noqa: SIM115, PTH123
        told = ["--info-fd", str(info_in.fileno()), "--block-fd", str(block.fileno())]
        passed = [info_in.fileno(), block.fileno()]
        if filter_file >= 0:
            told += ["--seccomp", str(filter_file)]
            passed.append(filter_file)
        with info:
            with info_in, block:
                self.bubblewrap = subprocess.Popen(
                    [*command, *told, "--", *program],
                    stdin=stdin.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=passed,
                    env=AT_START,
                    cwd="/",
                    process_group=0,  # of bubblewrap and of the first process, until that starts a session
                )
            try:
                self._hold(info.fileno())
            except BaseException:
                self.end()
                raise

    def _hold(self, info: int) -> None:
        """Opens a pidfd of the first process, which bubblewrap reports once the namespaces are made."""
        reported = b""
        info_poll = select.poll()
        info_poll.register(info, select.POLLIN)
        while not reported.rstrip().endswith(b"}"):
            part = os.read(info, 4096) if info_poll.poll(_START_MS) else b""
            if not part:
                raise self.failed()
            reported += part
        self.pid = int(json.loads(reported)["child-pid"])
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError as error:
            self.pid = 0  # it has exited, and another process may have its pid by now
            raise self.failed() from error

    def go(self) -> None:
        """Lets the first process execute the program, once everything is made.

        Raises:
            InfrastructureError: bubblewrap failed; the message has its error output.
        """
        with self._block as block:
            try:
                block.write(b"\n")
            except BrokenPipeError as error:
                raise self.failed() from error
            read = select.poll()
            read.register(block, 0)  # bubblewrap closes its end once it has read this: only the filter comes later
            if not read.poll(_START_MS):
                raise self.failed()

    def settle(self) -> None:
        """Waits until everything is made. The first process continues to wait.

        Raises:
            InfrastructureError: bubblewrap failed; the message has its error output.
        """
        until = time.monotonic() + START_S
        while not self._is_made():
            if self.has_ended() or time.monotonic() > until:
                raise self.failed()
            time.sleep(_LOOK_S)

    def _is_made(self) -> bool:
        """Whether everything is made: bubblewrap then drops the capabilities that come with the new namespace."""
        try:
            return _NO_CAPABILITIES in Path(f"/proc/{self.pid}/status").read_text()
        except OSError:  # it has exited
            return False

    def failed(self) -> InfrastructureError:
        """Ends everything. Returns an error with bubblewrap's error output and advice on it."""
        how = self._how_it_ended()  # before it is ended here
        text = self._end().decode("utf-8", "replace").strip()[:500]
        complaint = f"{text}.{_advice(text)}" if text else f"bubblewrap {how}"
        return InfrastructureError(f"a sandbox could not be started: {complaint}")

    def _how_it_ended(self) -> str:
        """What ended bubblewrap, which exits with 128 and the number of the signal that ended its first process."""
        until = time.monotonic() + _EXIT_S
        while (found := os.waitid(os.P_PID, self.bubblewrap.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            if time.monotonic() > until:
                return "did not answer in time"
            time.sleep(_LOOK_S)
        number = found.si_status if found.si_code != os.CLD_EXITED else found.si_status - 128
        if not 0 < number < signal.NSIG:
            return f"ended with status {found.si_status}, and did not say why"
        if number != signal.SIGKILL:
            return f"was ended by signal {number}"
        return "was ended by SIGKILL, as by the kernel if memory runs out: see the kernel's log (`dmesg`)"

    def end(self) -> None:
        """Ends the first process, all others in its namespace, and bubblewrap. May be called twice."""
        self._end()

    def _end(self) -> bytes:
        if self.bubblewrap.returncode is not None:
            return b""
        if self.pidfd < 0 and self.pid:
            os.kill(self.pid, signal.SIGKILL)
        super().end()
        self._block.close()
        try:
            return self.bubblewrap.communicate(timeout=_LAST_S)[1]  # bubblewrap reaps the first process
        except subprocess.TimeoutExpired:  # a first process that was not reported may wait for it, even if it is dead
            os.killpg(self.bubblewrap.pid, signal.SIGKILL)
            self.bubblewrap.wait()
            return b""


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


def find(program: str, package: str) -> str:
    """Returns the path of a program.

    Raises:
        IsolationUnavailable: it is not installed.
    """
    found = shutil.which(program)
    if found is None:
        raise IsolationUnavailable(
            f"`{program}` is not installed: `apt-get install {package}`, or your system's package of that name."
        )
    return found


def system(made: Image, environment: Path | None = None) -> list[str]:
    """Mounts the interpreter, the guest and packages read-only, and /dev/null, the one device that programs need."""
    packages = ["--ro-bind", str(environment), str(image.PACKAGES)] if environment else []
    return [
        "--ro-bind", str(made.root), "/",
        "--ro-bind", str(made.guest), str(image.GUEST),
        *packages,
        "--dev-bind", "/dev/null", "/dev/null",
    ]  # fmt: skip


def with_read_only_null(command: list[str]) -> list[str]:
    """Wraps the command in a mount namespace in which the host's /dev/null is read-only.

    Otherwise processes inside could change its times and its mode. bubblewrap could bind it read-only, but then no
    process could open it (nodev). bubblewrap keeps a mount that is already read-only.
    """
    unshared = [find("unshare", "util-linux"), "--user", "--map-root-user", "--mount"]
    return [*unshared, "/bin/sh", "-c", _MOUNT_NULL, "sh", *command]


def without_cores(command: list[str]) -> list[str]:
    """Wraps the command with the effect of the guest's `refuse_cores`: inside, behind the filter, it is too late."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    return [find("prlimit", "util-linux"), "--core=1:1", *command] if hard else command


def is_read_only(pid: int, point: str) -> bool:
    """Whether the path `point`, as a process sees it, is a separate mount, and read-only."""
    found = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    options = [fields[5].split(",") for fields in found if fields[4] == point]
    return bool(options) and "ro" in options[-1]


def scratch(size: int) -> list[str]:
    """Mounts the writable folders. Without a size, each could take half of the machine's memory."""
    return [
        "--perms", "0700", "--size", str(size), "--tmpfs", "/tmp",
        "--perms", "0700", "--size", str(limits.SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm",
    ]  # fmt: skip


def isolation() -> list[str]:
    """The arguments that isolate a sandbox."""
    return [
        "--remount-ro", "/",
        "--chdir", "/tmp",
        # --disable-userns needs the explicit --unshare-user
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        *_without_nesting(),
        # bubblewrap's own pid 1 would show the host's environment in /proc, and would be killable from inside
        "--as-pid-1",
        "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--cap-drop", "ALL",
        "--new-session",  # against TIOCSTI
    ]  # fmt: skip


def _without_nesting() -> list[str]:
    """Forbids user namespaces inside, which the filter refuses too.

    Omitted if /proc/sys/user is read-only, as in a container, because bubblewrap cannot write the limit there.
    """
    return [] if os.statvfs("/proc/sys/user").f_flag & os.ST_RDONLY else ["--disable-userns"]


def _advice(complaint: str) -> str:
    """Advice on bubblewrap's most common errors."""
    if "Permission denied" in complaint and "uid map" in complaint:
        return (
            " AppArmor keeps ordinary users from user namespaces here: "
            "run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap a profile that allows them."
        )
    if "new namespace" in complaint:
        return (
            " User namespaces are off: run `sysctl -w user.max_user_namespaces=15000` "
            "(and `kernel.unprivileged_userns_clone=1` where it exists); inside a container they need its permission."
        )
    return ""
