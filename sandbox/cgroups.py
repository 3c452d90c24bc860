"""Control groups, where they can be written: they count all processes of a sandbox together, kernel memory too, and
give each sandbox a share of the processors, however many processes and sessions it has.

Both hierarchies are spoken: v1 (a tree for each controller) and v2 (one tree, when it is delegated to this user).
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MIB = 1 << 20
_PARENT = "gradebox"
_NEEDED = {"memory", "pids"}
_JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit; shift; done; shift; exec "$@"'
_PERIOD_US = 100_000  # of a bound on processors
_SHARES, _WEIGHT, _MOST_WEIGHT = 1024, 100, 10_000  # of one process at nice 0: version 1, version 2
_NICE_STEP = 1.25  # what one step of `nice` is worth
_MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")  # version 2, version 1


class Cgroup:
    """The group of one sandbox: `folders` has its folder for each controller."""

    def __init__(self, folders: dict[str, Path], version: int) -> None:
        self.folders = folders
        self._version = version
        self._kills = 0

    @property
    def writable(self) -> bool:
        """Whether this process may set bounds."""
        return any(os.access(self.folders["memory"] / name, os.W_OK) for name in _MEMORY_LIMITS)

    def joined(self, command: list[str]) -> list[str]:
        """The command, as a process that is in the group before it runs, with all that it starts.

        It moves itself. To move another process, the kernel waits until all processors have passed through it: with
        version 1, where one thread can move alone, this takes 0.5 ms in the place of 10 to 20.
        """
        return ["/bin/sh", "-c", _JOIN, "sh", *map(str, self.entrances), "--", *command]

    @property
    def entrances(self) -> set[Path]:
        """Files: a process that writes `0` to each has moved itself into the group, with all that it starts."""
        file = "cgroup.procs" if self._version == 2 else "tasks"
        return {folder / file for folder in self.folders.values()}

    def has(self, pid: int) -> bool:
        """Whether a process is in the group, for each of its controllers."""
        told = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        paths = {controller: path for _, controllers, path in told for controller in controllers.split(",")}
        return all(
            paths.get(controller if self._version == 1 else "", "").endswith(f"/{folder.name}")
            for controller, folder in self.folders.items()
        )

    def allow_memory(self, mebibytes: int) -> None:
        """Bounds memory, without swap."""
        folder, size = self.folders["memory"], str(mebibytes * _MIB)
        if self._version == 2:
            (folder / "memory.max").write_text(size)
            return
        # v1 refuses a limit above that of memory and swap together, and one below it: widen, set, narrow.
        both = folder / "memory.memsw.limit_in_bytes"
        if both.exists():
            both.write_text("-1")
        (folder / "memory.limit_in_bytes").write_text(size)
        if both.exists():
            both.write_text(size)

    def allow_processes(self, number: int) -> None:
        """Bounds processes and threads."""
        (self.folders["pids"] / "pids.max").write_text(str(number))

    @property
    def shares_processors(self) -> bool:
        """Whether it has a share of the processors of its own."""
        return "cpu" in self.folders

    def weigh(self, processes: float) -> None:
        """Gives it as much of the processors as so many processes at nice 0 have."""
        if self._version == 2:
            weight = max(1, min(_MOST_WEIGHT, round(processes * _WEIGHT)))
            (self.folders["cpu"] / "cpu.weight").write_text(str(weight))
        else:
            (self.folders["cpu"] / "cpu.shares").write_text(str(max(2, round(processes * _SHARES))))

    def allow_processors(self, number: float) -> None:
        """Bounds the processors that all of it may use at a time. Not every kernel has such a bound."""
        folder, quota = self.folders["cpu"], round(number * _PERIOD_US)
        name, told = ("cpu.max", f"{quota} {_PERIOD_US}") if self._version == 2 else ("cpu.cfs_quota_us", str(quota))
        if (folder / name).exists():
            (folder / name).write_text(told)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process of this group for memory since the last call."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        kills = 0
        for line in (self.folders["memory"] / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                kills = int(value)
        more, self._kills = kills > self._kills, kills
        return more

    def remove(self) -> None:
        """Removes the group; its processes have been killed."""
        for folder in set(self.folders.values()):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # busy: the kernel has not yet buried the last process
                    time.sleep(0.01)


@contextmanager
def opened_to_join(group: Cgroup | None) -> Iterator[list[int]]:
    """Descriptors of a group's entrances, for a process that does not see them."""
    with ExitStack() as opened:
        entrances = [] if group is None else group.entrances
        yield [opened.enter_context(path.open("wb", buffering=0)).fileno() for path in entrances]


def of_process(pid: int) -> Cgroup | None:
    """The group that somebody else put a process into, where it is seen from here; it may be for reading alone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = Path(_ROOT, "memory" if controllers else "", path.lstrip("/"))
            if controllers in ("memory", "") and any((folder / name).exists() for name in _MEMORY_LIMITS):
                return Cgroup({"memory": folder}, 1 if controllers else 2)
    return None


class Cgroups:
    """Makes groups for sandboxes, below one group of this service's own."""

    def __init__(self, parents: dict[str, Path], version: int) -> None:
        self._parents = parents
        self.version = version

    @classmethod
    def find(cls) -> "Cgroups | None":
        """The hierarchy that this process may write, or None."""
        for version, parents in ((2, _v2_parents()), (1, _v1_parents())):
            if parents is not None and _works(parents):
                return cls(parents, version)
        return None

    @property
    def share_processors(self) -> bool:
        """Whether each group has a share of the processors of its own."""
        return "cpu" in self._parents

    def make(self, processes: int, processors: float = 0) -> Cgroup:
        """A new group with a bound on processes, and one on processors where that is not 0. It has the share of the
        processors that one process of this service has. Raises OSError when the kernel will not have it.
        """
        name = f"{os.getpid()}-{secrets.token_hex(6)}"
        folders = {controller: parent / name for controller, parent in self._parents.items()}
        for folder in set(folders.values()):
            folder.mkdir()
        group = Cgroup(folders, self.version)
        try:
            group.allow_processes(processes)
            if group.shares_processors:
                group.weigh(_NICE_STEP ** -os.nice(0))
                if 0 < processors < _processors():
                    group.allow_processors(processors)
            if self.version == 2:
                with suppress(FileNotFoundError):  # a kernel without swap accounting
                    (folders["memory"] / "memory.swap.max").write_text("0")
        except OSError:
            group.remove()
            raise
        return group

    def remove_stale(self) -> None:
        """Removes the groups that a killed service left behind: those of processes that are no more."""
        for parent in set(self._parents.values()):
            for folder in parent.iterdir():
                owner = folder.name.partition("-")[0]
                if folder.is_dir() and owner.isdigit() and not Path("/proc", owner).exists():
                    with suppress(OSError):  # its processes are dying: the next start removes it
                        folder.rmdir()


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _v1_parents() -> dict[str, Path] | None:
    parents = {controller: _ROOT / controller / _PARENT for controller in ("memory", "pids", "cpu")}
    there = {name: parent for name, parent in parents.items() if (parent.parent / "cgroup.procs").exists()}
    return there if set(there) >= _NEEDED else None


def _v2_parents() -> dict[str, Path] | None:
    """The group beside this process's own, when its controllers are delegated to us."""
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
    """Really makes a group and sets a limit."""
    try:
        for parent in set(parents.values()):
            parent.mkdir(exist_ok=True)
            control = parent / "cgroup.subtree_control"
            if control.exists():
                control.write_text(" ".join(f"+{controller}" for controller in parents))
        version = 2 if len(set(parents.values())) == 1 else 1
        if "cpu" in parents:
            # All together stand back for others of the machine as if they were one process for each processor.
            Cgroup(parents, version).weigh(_processors())
        group = Cgroups(parents, version).make(processes=64)
        try:
            group.allow_memory(64)
        finally:
            group.remove()
    except OSError:
        return False
    return True
