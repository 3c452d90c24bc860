"""Makes managers of `multiprocessing` work in a sandbox, which has no sockets except connected pairs.

Usually, a manager's server listens at an address. Here, the manager makes a pair before it forks its server. A process
connects by making another pair and sending one of its ends through the first pair. So a manager can be reached from the
process that starts it and from processes that are forked later, which is what graders of programs need.
"""

from __future__ import annotations

import os
import sys
from itertools import count

from sandbox.guest.child.after_import import AfterImport

TYPE_CHECKING = False  # see `after_import`
if TYPE_CHECKING:
    from collections.abc import Hashable
    from multiprocessing.connection import Connection
    from socket import socket
    from types import ModuleType
    from typing import Any

# The two ends of each manager's pair, by its address.
_accepting: dict[Hashable, socket] = {}
_connecting: dict[Hashable, socket] = {}
_numbers = count(1)


def connect_by_pairs() -> None:
    """From now on, managers use pairs as soon as `multiprocessing.managers` is imported."""
    sys.meta_path.insert(0, AfterImport({"multiprocessing.managers": _use_pairs}))


class PairListener:
    """Accepts the connections of one manager. Replaces `multiprocessing.connection.Listener`."""

    def __init__(self, address: Hashable = None, **_: object) -> None:
        self.address = address if address in _accepting else _make_pair(address)
        self._end = _accepting[self.address]

    def accept(self) -> Connection:
        """Waits for the next connection."""
        from multiprocessing.connection import Connection
        from socket import recv_fds

        _, descriptors, _, _ = recv_fds(self._end, 1, 1)
        if not descriptors:
            raise OSError("no connection arrived")
        return Connection(descriptors[0])


def connect(address: Hashable, authkey: bytes | None = None, **_: object) -> Connection:
    """Connects to a manager. Replaces `multiprocessing.connection.Client`.

    Raises:
        RuntimeError: this process was forked before the manager was started, or has shut it down. A worker of a pool
            would end without a word at an `OSError`.
        OSError: the manager has ended.
    """
    from multiprocessing import connection
    from socket import send_fds, socketpair

    if address not in _connecting:
        raise RuntimeError(
            f"no manager at {address!r} is known here: start the manager before the processes or the pool that use it"
        )
    ours, theirs = socketpair()
    with ours, theirs:
        send_fds(_connecting[address], [b"c"], [theirs.fileno()])
        made = connection.Connection(ours.detach())
    if authkey is not None:
        connection.answer_challenge(made, authkey)
        connection.deliver_challenge(made, authkey)
    return made


def _make_pair(address: Hashable) -> Hashable:
    from errno import EADDRINUSE
    from socket import socketpair

    if not address or (isinstance(address, tuple) and not address[-1]):  # any address, or any port
        address = f"manager {os.getpid()}.{next(_numbers)}"
    if address in _connecting:
        raise OSError(EADDRINUSE, f"there is a manager at {address!r} already")
    _accepting[address], _connecting[address] = socketpair()
    return address


def _close(ends: dict[Hashable, socket], address: Hashable) -> None:
    if end := ends.pop(address, None):
        end.close()


def _use_pairs(managers: ModuleType) -> None:
    manager: Any = managers.BaseManager
    start, finalize = manager.start, manager._finalize_manager

    def start_with_pair(self: Any, *arguments: Any, **named: Any) -> None:
        if self._state.value != managers.State.INITIAL:
            start(self)  # says that it was started, or has ended
        self._address = address = _make_pair(self._address)
        try:
            start(self, *arguments, **named)
        except BaseException:
            _close(_connecting, address)
            raise
        finally:
            _close(_accepting, address)  # so that no process waits for a server that has ended

    def finalize_and_close(process: Any, address: Hashable, *arguments: Any) -> None:
        try:
            finalize(process, address, *arguments)
        finally:
            _close(_connecting, address)

    manager.start = start_with_pair
    manager._finalize_manager = staticmethod(finalize_and_close)
    managers.listener_client["pickle"] = (PairListener, connect)
