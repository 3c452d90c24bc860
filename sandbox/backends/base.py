"""What builds sandboxes. A backend starts one, and it is the sandbox that is then talked to, bounded and ended."""

import socket
from typing import Protocol


class Sandbox(Protocol):
    """One isolated environment, with the guest's supervisor waiting at the other end of `channel`."""

    channel: socket.socket

    def allow_memory(self, mebibytes: int) -> None:
        """Bounds the memory of all processes together."""

    def ran_out_of_memory(self) -> bool:
        """Whether a process was ended since the last call because all together wanted too much memory."""

    def end(self) -> None:
        """Kills everything inside and gives back all that the sandbox held. May be called twice."""


class Backend(Protocol):
    """Builds sandboxes of one kind."""

    name: str

    def start(self) -> Sandbox:
        """A new, empty sandbox. Must be called from a thread that lives as long as the sandbox.

        Raises:
            InfrastructureError: it could not be started.
        """

    def close(self) -> None:
        """Gives back what the backend itself holds."""
