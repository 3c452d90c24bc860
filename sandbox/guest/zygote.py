"""The process that sandboxes are forked from: the guest, loaded and warmed up, and nothing else.

It receives descriptors, a number and a seccomp program. It never receives any data of a grader or a completion.
"""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import gc
import os
import signal
from struct import Struct
from typing import NoReturn

from sandbox.guest.child.thread_decoder import hidden_decoder
from sandbox.guest.kernel import lockdown
from sandbox.guest.protocol.fields import encode
from sandbox.guest.supervisor.main import Supervisor, begin, hide
from sandbox.guest.warmup.dry_run import rehearse
from sandbox.guest.warmup.imports import preload

# The user id to switch to, 0 to keep the current one, and the number of descriptors. The seccomp program follows.
ASKED = Struct("!IB")
_RIGHT = Struct("i")
MOST_TOLD = 1 << 16
_MOST_DESCRIPTORS = 8
_HOME = "/tmp"  # private to the sandbox
_CHANNEL = 3  # the only descriptor of the supervisor besides the standard ones


def main() -> None:
    """Forks a sandbox at each request of the host. Exits when the host has closed the control socket."""
    begin()
    control = socket.socket(fileno=os.dup(0))
    hide()
    preload(lambda: False)
    rehearse(hidden_decoder())
    gc.collect()  # otherwise a grader could find garbage of the dry run
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forked processes
    while True:
        told, ancillary, _, _ = control.recvmsg(MOST_TOLD, socket.CMSG_LEN(4 * _MOST_DESCRIPTORS))
        if not told:
            os._exit(0)
        descriptors = [one for _, _, rights in ancillary for one in memoryview(rights).cast("i").tolist()]
        if _forks(told, descriptors):
            control.close()
            _move(ASKED.unpack_from(told)[0], told[ASKED.size :], *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _forks(told: bytes, descriptors: list[int]) -> bool:
    """Forks; True in the child. If there is no child nothing is sent, and the host treats silence as an error."""
    _, number = ASKED.unpack_from(told)
    if len(descriptors) != number:  # the kernel drops descriptors that do not fit
        return False
    try:
        return os.fork() == 0
    except OSError:
        return False


def _move(uid: int, program: bytes, answer: int, channel: int, namespaces: int, owner: int, *groups: int) -> NoReturn:
    """Moves this process into the namespaces that bubblewrap has made, and forks the sandbox's pid 1 there."""
    host = socket.socket(fileno=answer)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for group in groups:
            os.write(group, b"0")
        if uid:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        lockdown.enter(namespaces, owner)
        os.chdir(_HOME)
        os.environ["PWD"] = _HOME
        lockdown.give_up_capabilities()
        hide()  # /dev/null is now the sandbox's: no other sandbox has that open file
        if os.fork():
            os._exit(0)
        os.setsid()  # before the filter, which may refuse it
        lockdown.filter_calls(program)
        host.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _RIGHT.pack(os.pidfd_open(os.getpid())))])
    except OSError as error:
        host.send(encode(str(error), 512))
        os._exit(1)
    host.detach()
    os.dup2(channel, _CHANNEL, inheritable=False)
    os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
    Supervisor(socket.socket(fileno=_CHANNEL)).serve(is_rehearsed=True)
