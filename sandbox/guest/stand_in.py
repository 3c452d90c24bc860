"""A template and a child that only say their lines, for a supervisor to rehearse with.

A supervisor shares its memory with the template that it has started, so the first time that it writes somewhere a page
is copied. A rehearsal has that done while nobody waits.
"""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
from struct import unpack

from sandbox.guest.child import DONE
from sandbox.guest.family import Child, Family
from sandbox.guest.frames import BATCH, CHUNK, LIMITS, SCORED, CheckResult, Limits, pack_check, pack_record
from sandbox.guest.template import MOST_SAID, SAID_CHECK, SAID_LOADED
from sandbox.guest.waiting import Waiting, make_note
from validators import BEFORE_TEST_RUN

_MILLIS, _BYTES = 10_000, 1 << 16
_LINE = b"{}\n"
LOAD = LIMITS.pack(*Limits(BATCH, _MILLIS, _MILLIS, *[_BYTES] * (len(Limits._fields) - 3)))
GRADE = CHUNK.pack(1, len(_LINE)) + _LINE


class StandIn:
    """Both of them. What it says lies there before it is asked.

    Attributes:
        waiting: what the supervisor takes for a template.
    """

    def __init__(self) -> None:
        control, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.waiting = Waiting(0, control, make_note())
        for number in range(len(BEFORE_TEST_RUN)):
            self._end.send(SAID_CHECK + pack_check(CheckResult(number, True, 0, 0, 0, "", "")))
        self._end.send(SAID_LOADED + bytes([BATCH, False]))

    def child(self, family: Family) -> Child:
        """A child that has graded the line, and says so."""
        child = family.start_child()
        self._end.recv(MOST_SAID)  # what is to be loaded
        _, ((_, _, rights),), _, _ = self._end.recvmsg(1, socket.CMSG_LEN(6 * 4))
        channel, results, *others = unpack(f"{len(rights) // 4}i", rights)
        os.write(results, pack_record(SCORED, 1, 1.0, []))
        os.write(channel, DONE)
        for descriptor in (channel, results, *others):
            os.close(descriptor)
        return child

    def close(self) -> None:
        """Closes all that is open of it."""
        self._end.close()
        self.waiting.control.close()
        os.close(self.waiting.note)
