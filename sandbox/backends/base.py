"""What builds sandboxes. A backend starts one, and it is the sandbox that is then talked to, bounded and ended."""

import socket
from pathlib import Path
from typing import Protocol

from sandbox import image

# All that a sandbox's processes find in their environment.
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/tmp",  # the sandbox's own
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "2",  # an arena for each thread would reserve 64 MiB of address space each
}
# Read by the loader alone, and taken away before anybody's code runs: symbols that are bound late are bound again by
# each child, which copies pages for it.
AT_START = {**ENVIRONMENT, "LD_BIND_NOW": "1"}
INTERPRETER = (str(image.PYTHON), "-s", "-S", "-P", "-B", "-X", "utf8")
COMMAND = (*INTERPRETER, f"{image.GUEST}/start.py")


class Sandbox(Protocol):
    """One isolated environment, with the guest's supervisor waiting at the other end of `channel`."""

    channel: socket.socket
    takes_descriptors: bool  # whether the channel carries them
    pid: int  # of its pid 1, as this process sees it; 0 where it does not

    def allow_memory(self, mebibytes: int) -> None:
        """Bounds the memory of all processes together."""

    def ran_out_of_memory(self) -> bool:
        """Whether a process was ended since the last call because all together wanted too much memory."""

    def end(self) -> None:
        """Kills everything inside and gives back all that the sandbox held. May be called twice."""


class Backend(Protocol):
    """Builds sandboxes of one kind."""

    name: str

    def start(self, environment: Path | None = None) -> Sandbox:
        """A new, empty sandbox, which sees the folder `environment` as `image.PACKAGES`, read-only.

        Must be called from a thread that lives as long as the sandbox, which may end with it.

        Raises:
            InfrastructureError: it could not be started.
        """

    def close(self) -> None:
        """Gives back what the backend itself holds."""
