"""Which descriptors are open: through a file or a pipe that two processes share, they can reach each other, now and
later. Not by its contents alone: an open file also has flags and a position.
"""

import os
import select
from collections.abc import Iterable

_STANDARD = (0, 1, 2)


def opened() -> frozenset[int]:
    """The descriptors of this process, found by one system call: there is no /proc."""
    poll = select.poll()
    most = os.sysconf("SC_OPEN_MAX")
    for descriptor in range(most):
        poll.register(descriptor, 0)
    closed = {descriptor for descriptor, event in poll.poll(0) if event & select.POLLNVAL}
    return frozenset(range(most)) - closed


def renew_input() -> None:
    """Gives this process a standard input that no other has open."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)


def close_all_but(kept: Iterable[int]) -> None:
    """Closes every descriptor but these and the standard ones."""
    first = 0
    for descriptor in sorted({*_STANDARD, *kept}):
        if first < descriptor:  # an empty range from 0 would be all descriptors
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
