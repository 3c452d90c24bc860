"""A backend that records what it starts, so that its leftovers can be found."""

import time
from contextlib import suppress
from pathlib import Path

from docker.errors import NotFound
from requests.exceptions import RequestException

from sandbox.backends.base import Backend, Sandbox
from sandbox.backends.docker import Docker
from sandbox.backends.docker.backend import DockerSandbox

_CGROUPS = Path("/sys/fs/cgroup")
_REMOVED_S = 30


class Watched:
    """Wraps any backend, and records the processes, control groups and containers of each sandbox that it starts."""

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self.started: list[Sandbox] = []
        self._backend = backend
        self._namespaces: dict[int, str] = {}
        self._groups: set[Path] = set()
        self._containers: list[str] = []
        self._mounts: list[str] = []
        self._mounted_before = _mounts()

    def start(self, environment: Path | None = None) -> Sandbox:
        """Starts a sandbox of the backend."""
        sandbox = self._backend.start(environment)
        self.started.append(sandbox)
        if sandbox.pid:
            self._namespaces[sandbox.pid] = _pid_namespace(sandbox.pid, 1 if self.name == "docker" else 1000)
            self._groups |= _groups(sandbox.pid) - _groups("self")
        if isinstance(sandbox, DockerSandbox) and isinstance(self._backend, Docker):
            told = self._backend.client.inspect_container(sandbox.name)
            self._containers.append(sandbox.name)
            self._mounts.append((told["GraphDriver"]["Data"] or {}).get("MergedDir", ""))
        return sandbox

    def close(self) -> None:
        """Closes the backend."""
        self._backend.close()

    def left(self) -> list[str]:
        """Reports what is left of the sandboxes: processes, control groups, containers, mounts.

        Only the first process of each sandbox is checked: if it has ended, the kernel has ended all others.
        """
        groups = [f"control group {group}" for group in self._groups if group.exists()]
        return [*self._processes(), *groups, *self._remaining_containers(), *self._remaining_mounts()]

    def _processes(self) -> list[str]:
        found = []
        for pid, namespace in self._namespaces.items():
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                if str(Path(f"/proc/{pid}/ns/pid").readlink()) == namespace and "(zombie)" not in status:
                    found.append(f"process {pid}, {status[:60]!r}")
        return found

    def _remaining_containers(self) -> list[str]:
        found = []
        if isinstance(self._backend, Docker):
            client = self._backend.client
            for name in self._containers:
                with suppress(NotFound):
                    if client.inspect_container(name)["State"]["Status"] == "removing":  # takes a busy engine seconds
                        with suppress(RequestException):
                            client.wait(name, timeout=_REMOVED_S, condition="removed")
                    found.append(f"container {client.inspect_container(name)['State']}")
        return found

    def _remaining_mounts(self) -> list[str]:
        now = _mounts()
        new = now - self._mounted_before
        return [f"mount {point}" for point in new if not _is_of_container(point) or point in self._mounts]


def _mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def _is_of_container(point: str) -> bool:
    """Whether a mount is of a container, including unrelated containers, which may start and end meanwhile."""
    return any(part in point for part in ("/overlay2/", "/vfs/", "/netns/", "/containers/"))


def _pid_namespace(pid: int, looks: int) -> str:
    for _ in range(looks):
        try:
            return str(Path(f"/proc/{pid}/ns/pid").readlink())
        except PermissionError:  # for an ordinary user, until the sandbox has its user namespace, or always
            time.sleep(0.001)
    return "of another user"


def _groups(pid: int | str) -> set[Path]:
    found = set()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory", "pids"):
            found.add(Path(_CGROUPS, controllers, path.lstrip("/")))
    return found
