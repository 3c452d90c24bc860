"""The process that sandboxes are forked from, so that none of them needs to start an interpreter.

It is the guest, loaded and rehearsed, in a sandbox of its own, and never hears of a grader or a completion: it is given
descriptors, a number and the seccomp program. For each sandbox bubblewrap makes namespaces and mounts, as it would for
an interpreter of its own; a copy of the zygote enters them, which needs no privilege but to be their owner, gives up
what it has, and forks what becomes pid 1. The host then looks at that process before it tells it anything.
"""

import os
import socket
from pathlib import Path

from sandbox import image, seccomp
from sandbox.backends.base import INTERPRETER
from sandbox.backends.bubblewrap import build
from sandbox.backends.bubblewrap.build import START_S, Build
from sandbox.backends.bubblewrap.first import First
from sandbox.cgroups import Cgroup, opened_to_join
from sandbox.errors import InfrastructureError
from sandbox.guest.zygote import MOST_TOLD, UID
from sandbox.image import Image

_PROGRAM = (*INTERPRETER, f"{image.GUEST}/zygote.py")
_NAMESPACES = ("user", "mnt", "net", "ipc", "uts")
_NO_CAPABILITIES = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)
_GIVEN_UP = {"NoNewPrivs": "1", "Seccomp": "2", **_NO_CAPABILITIES}  # as /proc tells it, 2 for a filter


class Zygote:
    """It lives until `end`, or until this process has gone, and all sandboxes that came of it end with it."""

    def __init__(self, bubblewrap: str, made: Image) -> None:
        """Raises InfrastructureError when it does not start."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._nsenter = build.find("nsenter", "util-linux")
        try:
            with theirs:
                self._build = Build([bubblewrap, *build.system(made), *_isolation()], _PROGRAM, theirs)
                self._build.go()
        except BaseException:
            self._control.close()
            raise

    @property
    def pid(self) -> int:
        """As this process sees it."""
        return self._build.pid

    @property
    def alive(self) -> bool:
        """Whether sandboxes can be forked from it."""
        return self._build.bubblewrap.poll() is None

    def owned(self, command: list[str]) -> list[str]:
        """An ordinary user's command, such that the user namespaces which it makes belong to where the zygote is."""
        return [self._nsenter, f"--user=/proc/{self.pid}/ns/user", "--preserve-credentials", "--", *command]

    def fork(self, uid: int, made: First, channel: socket.socket, cgroup: Cgroup | None) -> First:
        """Pid 1 of a new sandbox.

        Args:
            uid: who it becomes before it enters; 0 to stay who it is.
            made: a process in the namespaces that are to be entered.
            channel: what the guest speaks through.
            cgroup: joined before all else.

        Raises:
            InfrastructureError: it did not come, or is not what it must be.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs, opened_to_join(cgroup) as groups:
                descriptors = [theirs.fileno(), channel.fileno(), made.pidfd, *groups]
                socket.send_fds(self._control, [UID.pack(uid) + seccomp.program()], descriptors)
            ours.settimeout(START_S)
            told, found, _, _ = socket.recv_fds(ours, MOST_TOLD, 1, socket.MSG_CMSG_CLOEXEC)
        if not found:
            raise InfrastructureError(f"a sandbox could not be forked: {told.decode() or 'the zygote did not answer'}")
        forked = First(_pid(found[0]), found[0])
        try:
            _look_at(forked.pid, made.pid, uid or os.geteuid())
        except BaseException:
            forked.end()
            raise
        return forked

    def end(self) -> None:
        """Ends it, with all sandboxes that were forked from it."""
        self._control.close()
        self._build.end()


def _isolation() -> list[str]:
    """It needs less than a sandbox, for it runs nobody's code: it is kept from the host all the same."""
    # As root it becomes who each sandbox is to be. An ordinary user owns what it makes.
    return [
        "--remount-ro", "/",
        "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--as-pid-1", "--new-session",
        *(["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if os.geteuid() == 0 else
          ["--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]),
    ]  # fmt: skip


def _look_at(pid: int, made: int, uid: int) -> None:
    """Believes nothing of what a process says that it has given up.

    Raises:
        InfrastructureError: it has kept something, or is not where it should be.
    """
    seen = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    must = {**_GIVEN_UP, "Uid": "\t".join([str(uid)] * 4)}
    wrong = [f"{name} is {seen[name]}" for name, value in must.items() if seen[name] != value]
    wrong += [f"it has another {name} namespace" for name in _NAMESPACES if _inside(pid, name) != _inside(made, name)]
    if seen["NSpid"].split()[-1] != "1":
        wrong.append("it is not pid 1")
    if wrong:
        raise InfrastructureError(f"a sandbox that was forked is not isolated: {', '.join(wrong)}")


def _inside(pid: int, name: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{name}").readlink())


def _pid(pidfd: int) -> int:
    told = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return next(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pid:"))
