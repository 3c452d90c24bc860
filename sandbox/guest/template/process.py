"""Starts a template: first a process that waits for limits and a source."""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import fcntl
import gc
import os
from struct import Struct
from typing import NamedTuple

from sandbox.guest.child.thread_decoder import hidden_decoder
from sandbox.guest.kernel import sessions
from sandbox.guest.kernel.open_fds import renew
from sandbox.guest.protocol.grader_limits import LIMITS, GraderLimits
from sandbox.guest.template.fork_per_line import CONTROL, NOTE, PIECE, STATUS
from sandbox.guest.template.main import TemplateProcess, settle_in
from sandbox.guest.warmup.dry_run import rehearse

LOOK_S = 0.02  # between two checks of a template
_SEND_S = 10  # timeout for a template to receive a line
_TIME = Struct("@ll")
SOURCE = Struct("!I")  # the bytes of a source; the source follows, its first `PIECE` bytes in the same message


class SpareTemplate(NamedTuple):
    """A process that waits to become a template: its pid, the supervisor's end of its control socket, and its note."""

    template: int
    control: socket.socket
    note: int


def start_ahead() -> SpareTemplate:
    """Starts a template before it is needed, so that it has already copied the pages that it writes to."""
    return start_template(make_note(), rehearsing=True)


def start_template(note: int, rehearsing: bool = False) -> SpareTemplate:
    """Starts a process that waits for limits and a source."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIME.pack(0, int(LOOK_S * 1e6)))
    control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(_SEND_S, 0))
    template = os.fork()
    if template == 0:
        sessions.lead()
        kept = _only(theirs, note)
        renew(0)
        settle_in()
        if rehearsing:
            rehearse(hidden_decoder())
        gc.collect()  # collections of the grader's garbage then happen at the same moments, rehearsed or not
        told = kept.recv(LIMITS.size + SOURCE.size + PIECE)
        if told:
            TemplateProcess(kept, GraderLimits(*LIMITS.unpack_from(told))).run(_source(kept, told[LIMITS.size :]))
        os._exit(0)  # the supervisor has exited
    theirs.close()
    return SpareTemplate(template, control, note)


def tell(control: socket.socket, limits: GraderLimits, source: bytes) -> None:
    """Sends limits and a source to a waiting template, in several messages, because a socket's buffer bounds each."""
    control.send(LIMITS.pack(*limits) + SOURCE.pack(len(source)) + source[:PIECE])
    for start in range(PIECE, len(source), PIECE):
        control.send(source[start : start + PIECE])


def _source(control: socket.socket, told: bytes) -> bytes:
    (length,) = SOURCE.unpack_from(told)
    source = told[SOURCE.size :]
    while len(source) < length:
        piece = control.recv(PIECE)
        if not piece:
            os._exit(0)  # the supervisor has exited
        source += piece
    return source


def make_note() -> int:
    """Creates an unnamed file, in which the template writes the pid of its child."""
    path = "/dev/shm/.note"
    note = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    os.pwrite(note, bytes(STATUS.size), 0)
    return note


def _only(control: socket.socket, note: int) -> socket.socket:
    """Closes all descriptors of a template except the standard ones, its control socket and its note.

    Most importantly, this closes the host's channel.

    Returns:
        the control socket.
    """
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, NOTE + 1) for end in (control.detach(), note)]
    for place, end in zip((CONTROL, NOTE), above, strict=True):
        os.dup2(end, place, inheritable=False)
    os.closerange(NOTE + 1, os.sysconf("SC_OPEN_MAX"))
    return socket.socket(fileno=CONTROL)
