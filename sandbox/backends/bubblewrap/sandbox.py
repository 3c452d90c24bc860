"""A running sandbox of the bubblewrap backend."""

import socket
from collections.abc import Callable

from sandbox.backends.bubblewrap.first_process import FirstProcess
from sandbox.errors import StillRunning
from sandbox.kernel.cgroups import Cgroup
from sandbox.kernel.memory_monitor import Monitor
from sandbox.shared_folders import Seen

END_S = 10.0


class BubblewrapSandbox:
    """One running sandbox."""

    takes_descriptors = True

    def __init__(
        self,
        channel: socket.socket,
        first: FirstProcess,
        cgroup: Cgroup | None,
        monitor: Monitor,
        seen: Seen,
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called once, when the whole sandbox has ended."""
        self.channel = channel
        self.pid = first.pid
        self.seen = seen
        self.memory_bytes = 0
        self._first = first
        self._cgroup = cgroup
        self._monitor = monitor
        self._ended: Callable[[], None] | None = ended
        self._killed_for_memory = False
        if cgroup is None:
            monitor.watch(self)

    def allow_memory(self, mebibytes: int) -> None:
        """Limits the memory of all processes together, by the control group if there is one, otherwise by polling."""
        self.memory_bytes = mebibytes << 20
        if self._cgroup is not None:
            self._cgroup.allow_memory(mebibytes)

    def ran_out_of_memory(self) -> bool:
        """Whether a process was killed for lack of memory since the last call."""
        return self._killed_for_memory or (self._cgroup is not None and self._cgroup.ran_out_of_memory())

    def kill_for_memory(self) -> None:
        """Kills the sandbox. The monitor calls this if it uses too much memory."""
        self._killed_for_memory = True
        self._first.kill()

    def end(self) -> None:
        """Kills everything inside and releases all resources of the sandbox.

        Raises:
            StillRunning: it has not exited within `END_S`, and keeps its user id and control group.
        """
        self._monitor.forget(self)
        self._first.kill()
        self.channel.close()
        if not self._first.has_ended(int(END_S * 1000)):
            raise StillRunning(
                f"the sandbox of process {self.pid} was killed and has not exited within {END_S:g} s: look for a disk "
                "or file system that does not answer (`ps` shows the state D)"
            )
        self._first.end()
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None
        if self._ended is not None:
            self._ended()
            self._ended = None
