"""The hard limits of this process, which a sandbox cannot exceed: it has no capabilities."""

import resource

from sandbox.errors import IsolationUnavailable
from sandbox.limits import (
    FILE_BYTES,
    MAX_MEMORY_MB,
    MAX_TIMEOUT_S,
    MIB,
    OPEN_FILES,
    OWN_PROCESSES,
    STACK_BYTES,
)

# What graders would notice. The letters are those of `ulimit`, the numbers what it counts in.
_NEEDED = (
    (resource.RLIMIT_STACK, "s", STACK_BYTES, 1024),
    (resource.RLIMIT_DATA, "d", MAX_MEMORY_MB * MIB, 1024),
    (resource.RLIMIT_FSIZE, "f", FILE_BYTES, 1024),
    (resource.RLIMIT_NOFILE, "n", OPEN_FILES, 1),
    (resource.RLIMIT_CPU, "t", 2 * int(MAX_TIMEOUT_S) + 2, 1),  # what a process of one completion is given
)


def check(processes: int) -> None:
    """Raises IsolationUnavailable if this process may not give graders the limits that they are promised, with
    `processes` for processes and threads of their own.
    """
    for what, letter, needed, unit in (*_NEEDED, (resource.RLIMIT_NPROC, "u", processes + OWN_PROCESSES, 1)):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise IsolationUnavailable(
                f"`ulimit -H{letter}` is {hard // unit} here, and sandboxes need {needed // unit}: raise it, as in "
                "/etc/security/limits.conf, in the unit of systemd or for the container, and start again."
            )
