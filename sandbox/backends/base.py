"""Interfaces of backends and sandboxes. A backend starts a sandbox; the sandbox is then used, limited and ended."""

import socket
from pathlib import Path
from typing import Protocol

from sandbox import image, shared_folders

# The whole environment of a sandbox's processes.
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/tmp",  # a folder of the sandbox, not of the host
    "USER": "grader",  # for `getpass.getuser`: the user ids have no names
    "LANG": "C",  # the sandbox has no other locale. Python reads and writes UTF-8 all the same
    "TZ": "UTC",
    "TZDIR": str(image.ZONES),  # for libc; Python looks there by itself
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "2",  # each thread's arena would reserve 64 MiB of address space
}
# LD_BIND_NOW is read by the loader only, and removed before any grader's code runs: symbols that are bound late would
# be bound again in each child, which copies pages.
AT_START = {**ENVIRONMENT, "LD_BIND_NOW": "1"}
INTERPRETER = (str(image.PYTHON), "-s", "-S", "-P", "-B", "-X", "utf8")
COMMAND = (*INTERPRETER, f"{image.GUEST}/start")


class Sandbox(Protocol):
    """One isolated environment. The guest's supervisor is at the other end of `channel`."""

    channel: socket.socket
    takes_descriptors: bool  # whether the channel can carry descriptors
    pid: int  # of the sandbox's pid 1, as this process sees it; 0 if it cannot see it
    seen: shared_folders.Seen  # the folders of this machine that it sees

    def allow_memory(self, mebibytes: int) -> None:
        """Limits the memory of all processes together."""

    def ran_out_of_memory(self) -> bool:
        """Whether a process was killed since the last call because all processes together needed too much memory."""

    def end(self) -> None:
        """Kills everything inside and releases all resources of the sandbox. May be called twice.

        Raises:
            StillRunning: it has not exited yet. Another call waits for it again.
        """


class Backend(Protocol):
    """Builds sandboxes of one kind."""

    name: str

    def start(self, environment: Path | None = None) -> Sandbox:
        """Starts a new, empty sandbox, which sees the folder `environment` as `image.PACKAGES`, read-only.

        Must be called from a thread that lives as long as the sandbox, because the sandbox may end with the thread.

        Raises:
            InfrastructureError: it could not be started.
        """

    def close(self) -> None:
        """Releases the resources of the backend itself."""
