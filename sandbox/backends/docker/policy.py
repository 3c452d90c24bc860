"""The permissions of a container: at most those of a bubblewrap sandbox, as far as an engine can be configured."""

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sandbox import image, limits
from sandbox.backends.base import AT_START, COMMAND
from sandbox.kernel import seccomp

CHANNEL = "/run/gradebox"  # the socket, inside a container
_ALLOW = "SCMP_ACT_ALLOW"
_ENOSYS = 38
_CPU_SHARES = 256  # an ordinary container has 1024: the service itself has priority
_OF_THIS_KERNEL = ("", "runc", "crun")
_KERNELS_THREADS = 1024  # for a runtime with a separate kernel, such as gVisor: its kernel's threads count too
# Until the guest sets its own, which may not be higher. What is not named here has the engine's `default-ulimits`.
_ULIMITS = {
    "core": 1,  # with 0, cores can be piped to a program of the host
    "cpu": -1,
    "data": -1,
    "fsize": -1,
    "nofile": 1024,
    "nproc": 4096,
    "stack": limits.STACK_BYTES,
}
# Every engine adds these to a container by default.
_FILES = ("/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf", "/.dockerenv")
_NEEDED_OF_PROC = {"self", "thread-self"}  # by the runtime, until it has started the guest


@dataclass(frozen=True)
class Container:
    """One container to be created.

    Attributes:
        uid: its user and group.
        where: the guest's argument that names its channel.
        socket: the socket of the host to be mounted, or None if the guest uses its standard streams.
        processors: how many it may use; 0 if the engine cannot limit them.
        processes: how many processes and threads its grader may start.
        environment: the folder of packages to be mounted, on the engine's machine; None if there are none.
    """

    image: str
    uid: int
    where: str
    socket: Path | None
    runtime: str
    processors: float
    scratch_bytes: int
    scratch_files: int
    processes: int
    labels: dict[str, str]
    environment: Path | None = None

    def config(self) -> dict[str, Any]:
        """The body of the request to the engine."""
        streams = self.socket is None
        return {
            "Image": self.image,
            "Entrypoint": [*COMMAND, self.where],
            "Cmd": [],
            "User": f"{self.uid}:{self.uid}",
            "Hostname": "sandbox",
            "Env": [f"{name}={value}" for name, value in AT_START.items()],
            "WorkingDir": "/tmp",
            "Labels": self.labels,
            "NetworkDisabled": True,
            "Healthcheck": {"Test": ["NONE"]},
            "StopSignal": "SIGKILL",
            "Tty": False,
            "OpenStdin": streams,
            "StdinOnce": streams,
            "HostConfig": self._host(),
        }

    def _host(self) -> dict[str, Any]:
        memory = (limits.MEMORY_MB + limits.SANDBOX_MIB) * limits.MIB
        host: dict[str, Any] = {
            "AutoRemove": True,
            "NetworkMode": "none",
            "IpcMode": "none",
            "CgroupnsMode": "private",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges", f"seccomp={json.dumps(profile())}"],
            "PidsLimit": self.processes + limits.OWN_PROCESSES if self.runtime in _OF_THIS_KERNEL else _KERNELS_THREADS,
            "Memory": memory,
            "MemorySwap": memory,
            "OomScoreAdj": 1000,  # the kernel kills this before anything else on the machine
            "NanoCpus": int(self.processors * 1e9),
            "CpuShares": _CPU_SHARES,
            "Ulimits": [{"Name": name, "Soft": number, "Hard": number} for name, number in _ULIMITS.items()],
            "Tmpfs": {
                "/dev": "ro,dev,nosuid,noexec,mode=755,size=64k",  # by default any process can set the times of devices
                "/tmp": self._tmpfs(self.scratch_bytes),
                "/dev/shm": self._tmpfs(limits.SHARED_MEMORY_BYTES),
            },
            "Mounts": self._mounts(),
            "MaskedPaths": _masked(),
            "ReadonlyPaths": ["/proc"],
            "LogConfig": {"Type": "none"},
            "Dns": ["127.0.0.1"],  # otherwise the engine copies the host's servers and domains in
            "DnsSearch": ["."],
        }
        return host | ({"Runtime": self.runtime} if self.runtime else {})

    def _tmpfs(self, size: int) -> str:
        owner = f"uid={self.uid},gid={self.uid},mode=0700"
        return f"rw,noexec,nosuid,nodev,size={size},nr_inodes={2 * self.scratch_files},{owner}"

    def _mounts(self) -> list[dict[str, Any]]:
        seen = ((self.socket, CHANNEL), (self.environment, str(image.PACKAGES)))
        return [
            {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
            for source, target in seen
            if source is not None
        ]


def _masked() -> list[str]:
    """Everything in /proc that is no process, and all of /sys. Paths that this kernel does not have are ignored."""
    names = {path.name for path in Path("/proc").iterdir() if not path.name.isdigit()} - _NEEDED_OF_PROC
    return ["/sys", "/dev/pts", "/dev/mqueue", *_FILES, *sorted(f"/proc/{name}" for name in names)]


def profile() -> dict[str, Any]:
    """The seccomp policy in the engine's form; the guest installs the stricter one once it has its channel."""
    policy = seccomp.policy()
    engine = policy["engine"]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [
            {"names": policy["allow"] + engine["allow"], "action": _ALLOW},
            {"names": policy["absent"], **_refusal(_ENOSYS)},
            {"names": policy["no_effect"], **_refusal(0)},
            *map(_rule, chain(seccomp.by_arguments(policy), seccomp.when(engine["when"]))),
        ],
    }


def _refusal(number: int) -> dict[str, Any]:
    return {"action": "SCMP_ACT_ERRNO", "errnoRet": number}


def _rule(rule: seccomp.Rule) -> dict[str, Any]:
    action = _refusal(0) if rule.no_effect else {"action": _ALLOW}
    return {"names": [rule.name], "args": [*map(_condition, rule.conditions)], **action}


def _condition(condition: seccomp.Condition) -> dict[str, Any]:
    values = {"value": condition.mask, "valueTwo": condition.value}
    return {"index": condition.position, "op": "SCMP_CMP_MASKED_EQ", **values}
