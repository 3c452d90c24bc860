"""The process that sandboxes are forked from, so that none of them needs to start an interpreter.

It is the guest, loaded and rehearsed, in a separate sandbox. It never receives anything of a grader or a completion,
only descriptors, a user id and the seccomp program. For each sandbox, bubblewrap makes namespaces and mounts, as it
would for a new interpreter. A copy of the zygote enters them, for which it needs no privilege except to be their owner,
gives up its privileges, and forks the process that becomes pid 1. The host checks that process before it sends it
anything.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sandbox import image
from sandbox.backends.base import INTERPRETER
from sandbox.backends.bubblewrap import bwrap_run
from sandbox.backends.bubblewrap.bwrap_run import START_S, BwrapRun, is_read_only
from sandbox.backends.bubblewrap.first_process import FirstProcess
from sandbox.errors import InfrastructureError
from sandbox.guest.zygote import ASKED, MOST_TOLD
from sandbox.image import Image
from sandbox.kernel.cgroups import Cgroup, opened_to_join

_PROGRAM = (*INTERPRETER, f"{image.GUEST}/zygote")
_NAMESPACES = ("user", "mnt", "net", "ipc", "uts")
_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


class Zygote:
    """The zygote. It lives until `end` or until this process exits; all sandboxes forked from it end with it."""

    def __init__(self, bubblewrap: str, made: Image) -> None:
        """Raises InfrastructureError if it does not start."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(START_S)
        with theirs, ExitStack() as failing:
            failing.callback(self._control.close)
            self._build = BwrapRun([bubblewrap, *bwrap_run.system(made), *_isolation()], _PROGRAM, theirs)
            failing.callback(self._build.end)
            self._build.go()
            failing.pop_all()

    @property
    def pid(self) -> int:
        """The zygote's pid, as this process sees it."""
        return self._build.pid

    def has_ended(self, within_ms: int = 0) -> bool:
        """Whether the zygote has exited, or exits within the time."""
        return self._build.has_ended(within_ms)

    def owned(self, nsenter: str, command: list[str]) -> list[str]:
        """Wraps an ordinary user's command so that the user namespaces it makes belong to the zygote's namespace."""
        return [nsenter, f"--user=/proc/{self.pid}/ns/user", "--preserve-credentials", "--", *command]

    def fork(
        self, uid: int, made: FirstProcess, channel: socket.socket, cgroup: Cgroup | None, program: bytes
    ) -> FirstProcess:
        """Forks pid 1 of a new sandbox.

        Args:
            uid: the user that it becomes before it enters; 0 to remain the same user.
            made: a process in the namespaces to be entered.
            channel: the guest's end of the channel.
            cgroup: joined before anything else.
            program: the seccomp program.

        Raises:
            InfrastructureError: it was not forked, or is not isolated as it must be.
        """
        try:
            with _owner_of_mounts(made.pid) as owner:
                reported, found = self._ask(uid, [channel.fileno(), made.pidfd, owner], cgroup, program)
        except TimeoutError as error:
            self._build.kill()  # the sandboxes forked from it are hardly in a better state
            raise InfrastructureError("a sandbox could not be forked: the zygote took too long") from error
        if not found:
            raise InfrastructureError(
                f"a sandbox could not be forked: {reported.decode() or 'the zygote did not answer'}"
            )
        forked = FirstProcess(0, found[0])
        try:
            forked.pid = _pid(forked.pidfd)
            _look_at(forked.pid, made.pid, uid, cgroup)
        except BaseException:
            forked.end()
            raise
        return forked

    def _ask(self, uid: int, descriptors: list[int], cgroup: Cgroup | None, program: bytes) -> tuple[bytes, list[int]]:
        """Returns the copy's error message, or a descriptor of the process it has forked; nothing if the copy died."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_S)
        with ours:
            with theirs, opened_to_join(cgroup) as groups:
                passed = [theirs.fileno(), *descriptors, *groups]
                socket.send_fds(self._control, [ASKED.pack(uid, len(passed)) + program], passed)
            reported, found, _, _ = socket.recv_fds(ours, MOST_TOLD, 1, socket.MSG_CMSG_CLOEXEC)
        return reported, found

    def end(self) -> None:
        """Ends it, with all sandboxes that were forked from it."""
        self._control.close()
        self._build.end()


def _isolation() -> list[str]:
    """The arguments that isolate the zygote.

    It runs no grader's code, so it needs less than a sandbox, but it is isolated from the host all the same.
    """
    # As root, its copies become the users of their sandboxes, so it keeps two capabilities. An ordinary user owns the
    # namespaces it makes.
    return [
        "--remount-ro", "/",
        "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--as-pid-1", "--new-session",
        *(["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if os.geteuid() == 0 else
          ["--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]),
    ]  # fmt: skip


def _look_at(pid: int, made: int, uid: int, cgroup: Cgroup | None) -> None:
    """Checks what a process has given up and where it is, without trusting its own report.

    Raises:
        InfrastructureError: it has kept something, or is not where it should be.
    """
    seen = _status(pid)
    wrong = [f"{name} is {seen.get(name)}" for name, value in _must(uid).items() if seen.get(name) != value]
    wrong += [f"it has another {name} namespace" for name in _NAMESPACES if _inside(pid, name) != _inside(made, name)]
    if cgroup is not None and not cgroup.has(pid):
        wrong.append("it is not in its control groups")
    if not seen.get("NSpid", "").endswith(" 1"):
        wrong.append("it is not pid 1")
    if not is_read_only(pid, "/dev/null"):
        wrong.append("it can change /dev/null")
    if wrong:
        raise InfrastructureError(f"a sandbox that was forked is not isolated: {', '.join(wrong)}")


def _status(pid: int) -> dict[str, str]:
    return _members(Path(f"/proc/{pid}/status"))


def _members(path: Path) -> dict[str, str]:
    """The lines of a file in /proc, as names and values."""
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: " ".join(value.split()) for name, _, value in lines}


def _must(uid: int) -> dict[str, str]:
    """The required values in /proc of a process without privileges that has become user `uid`, if that is not 0."""
    became = {"Uid": f"{uid} {uid} {uid} {uid}", "Gid": f"{uid} {uid} {uid} {uid}", "Groups": ""} if uid else {}
    return {"NoNewPrivs": "1", "Seccomp": "2", **dict.fromkeys(_CAPABILITIES, "0" * 16), **became}


@contextmanager
def _owner_of_mounts(pid: int) -> Iterator[int]:
    """Yields a descriptor of the user namespace that owns a process's mount namespace."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    finally:
        os.close(mounts)
    try:
        yield owner
    finally:
        os.close(owner)


def _inside(pid: int, name: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{name}").readlink())


def _pid(pidfd: int) -> int:
    """Returns the pid of a pidfd's process. Raises InfrastructureError if it has exited."""
    pid = int(_members(Path(f"/proc/self/fdinfo/{pidfd}")).get("Pid", 0))
    if pid <= 0:
        raise InfrastructureError("a sandbox that was forked has ended at once")
    return pid
