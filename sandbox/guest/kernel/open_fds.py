"""Finds and closes open descriptors.

Two processes that share an open file or pipe can reach each other through it, now and later. They can use not only its
contents but also the flags and the position of the open file.
"""

import os
import select
from collections.abc import Iterable

_STANDARD = (0, 1, 2)


def opened() -> frozenset[int]:
    """The open descriptors of this process, found by one system call, because there is no /proc."""
    poll = select.poll()
    most = os.sysconf("SC_OPEN_MAX")
    for descriptor in range(most):
        poll.register(descriptor, 0)
    closed = {descriptor for descriptor, event in poll.poll(0) if event & select.POLLNVAL}
    return frozenset(range(most)) - closed


def renew(*descriptors: int) -> None:
    """Replaces these descriptors by /dev/null, as an open file that no other process has."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def close_all_but(kept: Iterable[int]) -> None:
    """Closes all descriptors except these and the standard ones."""
    first = 0
    for descriptor in sorted({*_STANDARD, *kept}):
        if first < descriptor:  # an empty range from 0 would be all descriptors
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
