"""A sandbox that runs."""

import socket
from collections.abc import Callable

from sandbox.backends.bubblewrap.first_process import First
from sandbox.cgroups import Cgroup
from sandbox.memory_monitor import Monitor


class BubblewrapSandbox:
    """One running sandbox."""

    takes_descriptors = True

    def __init__(
        self,
        channel: socket.socket,
        first: First,
        cgroup: Cgroup | None,
        monitor: Monitor,
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called once, when all of it has gone."""
        self.channel = channel
        self.pid = first.pid
        self.memory_bytes = 0
        self._first = first
        self._cgroup = cgroup
        self._monitor = monitor
        self._ended: Callable[[], None] | None = ended
        self._killed_for_memory = False
        if cgroup is None:
            monitor.watch(self)

    def allow_memory(self, mebibytes: int) -> None:
        """Bounds all processes together: by a control group where there is one, else by the monitor."""
        self.memory_bytes = mebibytes << 20
        if self._cgroup is not None:
            self._cgroup.allow_memory(mebibytes)

    def ran_out_of_memory(self) -> bool:
        """Whether a process was ended for memory since the last call."""
        return self._killed_for_memory or (self._cgroup is not None and self._cgroup.ran_out_of_memory())

    def kill_for_memory(self) -> None:
        """What the monitor does to a sandbox that wants too much."""
        self._killed_for_memory = True
        self._first.kill()

    def end(self) -> None:
        """Kills everything inside and gives back all that the sandbox held."""
        self._monitor.forget(self)
        self._first.kill()
        self.channel.close()
        self._first.end()
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None
        if self._ended is not None:
            self._ended()
            self._ended = None
