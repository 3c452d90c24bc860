"""Control groups, if this process can write them. They account for all processes of a sandbox together, including
kernel memory, and give each sandbox one share of the processors, however many processes and sessions it has.

Both hierarchies are supported: v1 (one tree per controller) and v2 (one tree, if it is delegated to this user).
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sandbox.kernel.usage import processor_count
from sandbox.limits import MIB

_ROOT = Path("/sys/fs/cgroup")
_PARENT = "gradebox"
_NEEDED = {"memory", "pids"}
_JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit; shift; done; shift; exec "$@"'
_PERIOD_US = 100_000  # period of the processor limit
_SHARES, _WEIGHT, _MOST_WEIGHT = 1024, 100, 10_000  # of one process at nice 0: v1, v2; the maximum in v2
_NICE_STEP = 1.25  # ratio of the shares of two adjacent `nice` values
_MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")  # version 2, version 1


class Cgroup:
    """The control group of one sandbox. `folders` maps each controller to the group's folder."""

    def __init__(self, folders: dict[str, Path], version: int) -> None:
        self.folders = folders
        self._version = version
        self._kills = 0

    @property
    def writable(self) -> bool:
        """Whether this process may set the group's limits."""
        return any(os.access(self.folders["memory"] / name, os.W_OK) for name in _MEMORY_LIMITS)

    def joined(self, command: list[str]) -> list[str]:
        """Wraps a command so that its process, and all that it starts, runs inside the group.

        The process moves itself. To move another process, the kernel waits until all processors have passed through the
        kernel, which takes 10 to 20 ms. In v1 a thread can move itself alone, which takes only 0.5 ms.
        """
        return ["/bin/sh", "-c", _JOIN, "sh", *map(str, self.entrances), "--", *command]

    @property
    def entrances(self) -> set[Path]:
        """Files to join the group. A process that writes `0` to each one moves itself into the group, with all that it
        starts.
        """
        file = "cgroup.procs" if self._version == 2 else "tasks"
        return {folder / file for folder in self.folders.values()}

    def has(self, pid: int) -> bool:
        """Whether a process is in this group, for each of its controllers."""
        reported = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        paths = {controller: path for _, controllers, path in reported for controller in controllers.split(",")}
        return all(
            paths.get(controller if self._version == 1 else "", "").endswith(f"/{folder.name}")
            for controller, folder in self.folders.items()
        )

    def allow_memory(self, mebibytes: int) -> None:
        """Limits memory, without swap."""
        folder, size = self.folders["memory"], str(mebibytes * MIB)
        if self._version == 2:
            (folder / "memory.max").write_text(size)
            return
        # v1 keeps the memory limit at or below the limit of memory and swap together: raise the latter, set the former,
        # then lower the latter.
        both = folder / "memory.memsw.limit_in_bytes"
        if both.exists():
            both.write_text("-1")
        (folder / "memory.limit_in_bytes").write_text(size)
        if both.exists():
            both.write_text(size)

    def allow_processes(self, number: int) -> None:
        """Limits the number of processes and threads."""
        (self.folders["pids"] / "pids.max").write_text(str(number))

    @property
    def shares_processors(self) -> bool:
        """Whether the group has a separate share of the processors."""
        return "cpu" in self.folders

    def weigh(self, processes: float) -> None:
        """Gives the group the share of the processors that `processes` processes at nice 0 have."""
        if self._version == 2:
            weight = max(1, min(_MOST_WEIGHT, round(processes * _WEIGHT)))
            (self.folders["cpu"] / "cpu.weight").write_text(str(weight))
        else:
            (self.folders["cpu"] / "cpu.shares").write_text(str(max(2, round(processes * _SHARES))))

    def allow_processors(self, number: float) -> None:
        """Limits the processors that the whole group may use at a time, if the kernel has this limit."""
        folder, quota = self.folders["cpu"], round(number * _PERIOD_US)
        name, told = ("cpu.max", f"{quota} {_PERIOD_US}") if self._version == 2 else ("cpu.cfs_quota_us", str(quota))
        if (folder / name).exists():
            (folder / name).write_text(told)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed a process of this group for lack of memory since the last call."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        kills = 0
        for line in (self.folders["memory"] / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                kills = int(value)
        more, self._kills = kills > self._kills, kills
        return more

    def remove(self) -> None:
        """Removes the group. Its processes must have been killed."""
        for folder in set(self.folders.values()):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # busy: the kernel has not yet released the last process
                    time.sleep(0.01)


@contextmanager
def opened_to_join(group: Cgroup | None) -> Iterator[list[int]]:
    """Opens the files to join a group and yields their descriptors, for a process that cannot see the files."""
    with ExitStack() as opened:
        entrances = [] if group is None else group.entrances
        yield [opened.enter_context(path.open("wb", buffering=0)).fileno() for path in entrances]


def of_process(pid: int) -> Cgroup | None:
    """The group that another program put a process into, if it is visible from here; it may be read-only."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = Path(_ROOT, "memory" if controllers else "", path.lstrip("/"))
            if controllers in ("memory", "") and any((folder / name).exists() for name in _MEMORY_LIMITS):
                return Cgroup({"memory": folder}, 1 if controllers else 2)
    return None


class Cgroups:
    """Creates groups for sandboxes, below one group that belongs to this service."""

    def __init__(self, parents: dict[str, Path], version: int) -> None:
        self._parents = parents
        self.version = version

    @classmethod
    def find(cls) -> "Cgroups | None":
        """Finds a hierarchy that this process may write; None if there is none."""
        for version, parents in ((2, _v2_parents()), (1, _v1_parents())):
            if parents is not None and _works(parents):
                return cls(parents, version)
        return None

    @property
    def share_processors(self) -> bool:
        """Whether each group has a separate share of the processors."""
        return "cpu" in self._parents

    def make(self, processes: int, processors: float = 0) -> Cgroup:
        """Creates a group with a limit on processes and, if `processors` is not 0, on processors. It gets the share of
        the processors that one process of this service has. Raises OSError if the kernel refuses it.
        """
        name = f"{os.getpid()}-{secrets.token_hex(6)}"
        folders = {controller: parent / name for controller, parent in self._parents.items()}
        group = Cgroup(folders, self.version)
        try:
            for folder in set(folders.values()):
                folder.mkdir()
            group.allow_processes(processes)
            if group.shares_processors:
                group.weigh(_NICE_STEP ** -os.nice(0))
                if 0 < processors < processor_count():
                    group.allow_processors(processors)
            if self.version == 2:
                with suppress(FileNotFoundError):  # a kernel without swap accounting
                    (folders["memory"] / "memory.swap.max").write_text("0")
        except OSError:
            group.remove()
            raise
        return group

    def remove_stale(self) -> None:
        """Removes the groups that a killed service left behind: those whose owner process no longer exists."""
        for parent in set(self._parents.values()):
            for folder in parent.iterdir():
                owner = folder.name.partition("-")[0]
                if folder.is_dir() and owner.isdigit() and not Path("/proc", owner).exists():
                    with suppress(OSError):  # its processes are still exiting: the next start removes it
                        folder.rmdir()


def _v1_parents() -> dict[str, Path] | None:
    parents = {controller: _ROOT / controller / _PARENT for controller in ("memory", "pids", "cpu")}
    there = {name: parent for name, parent in parents.items() if (parent.parent / "cgroup.procs").exists()}
    return there if set(there) >= _NEEDED else None


def _v2_parents() -> dict[str, Path] | None:
    """The parent of the sandboxes' groups in v2: a sibling of this process's group, if its controllers are delegated to
    this user.
    """
    if not (_ROOT / "cgroup.controllers").exists():
        return None
    with suppress(OSError, IndexError):
        own = Path("/proc/self/cgroup").read_text().split("0::", 1)[1].splitlines()[0]
        above = (_ROOT / own.lstrip("/")).parent if own != "/" else _ROOT
        controllers = {*(above / "cgroup.subtree_control").read_text().split()} & {*_NEEDED, "cpu"}
        if controllers >= _NEEDED:
            return dict.fromkeys(sorted(controllers), above / _PARENT)
    return None


def _works(parents: dict[str, Path]) -> bool:
    """Tests the hierarchy: creates a group in it and sets a limit."""
    try:
        for parent in set(parents.values()):
            parent.mkdir(exist_ok=True)
            control = parent / "cgroup.subtree_control"
            if control.exists():
                control.write_text(" ".join(f"+{controller}" for controller in parents))
        version = 2 if len(set(parents.values())) == 1 else 1
        if "cpu" in parents:
            # All sandboxes together have the weight of one process per processor against other programs of the machine.
            Cgroup(parents, version).weigh(processor_count())
        group = Cgroups(parents, version).make(processes=64)
        try:
            group.allow_memory(64)
        finally:
            group.remove()
    except OSError:
        return False
    return True
