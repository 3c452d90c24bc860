"""The seccomp filter, compiled from `syscalls.toml` by libseccomp."""

import errno
import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandbox.errors import IsolationUnavailable

_POLICY = Path(__file__).with_name("syscalls.toml")
_C_INT = 0xFFFFFFFF
_HOW = "Install libseccomp: `apt-get install libseccomp2`, or your system's package of that name."


@lru_cache(maxsize=1)
def program() -> bytes:
    """The BPF program of the policy.

    Raises:
        IsolationUnavailable: there is no libseccomp.
    """
    seccomp = _library()
    told = policy()
    bpf = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    bpf.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    _allow(bpf, seccomp, told["allow"])
    for name in told["absent"]:
        _rule(bpf, seccomp, seccomp.ERRNO(errno.ENOSYS), name)
    _allow_by_argument(bpf, seccomp, told)
    with tempfile.TemporaryFile() as file:
        bpf.export_bpf(file)
        file.seek(0)
        return file.read()


def number(name: str) -> int | None:
    """The number of a system call on this machine, or None where it or its libseccomp does not know the name.

    Raises:
        IsolationUnavailable: there is no libseccomp.
    """
    seccomp = _library()
    try:
        found: int = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    except (ValueError, OSError):
        return None
    return found if found >= 0 else None


def _library() -> Any:
    try:
        import pyseccomp  # loads the C library, which may be missing
    except (ImportError, OSError, RuntimeError) as error:
        raise IsolationUnavailable(f"libseccomp cannot be loaded ({error}). {_HOW}") from error
    return pyseccomp


def _allow(bpf: Any, seccomp: Any, names: Iterable[str]) -> None:
    for name in names:
        _rule(bpf, seccomp, seccomp.ALLOW, name)


def _rule(bpf: Any, seccomp: Any, action: Any, name: str, *arguments: Any) -> None:
    try:
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    except (ValueError, OSError):
        return  # not a call of this architecture, or newer than this libseccomp: stays refused
    bpf.add_rule(action, number, *arguments)


def _allow_by_argument(bpf: Any, seccomp: Any, policy: dict[str, Any]) -> None:
    for name, position, mask, value in by_argument(policy):
        _rule(bpf, seccomp, seccomp.ALLOW, name, seccomp.Arg(position, seccomp.MASKED_EQ, mask, value))


def policy() -> dict[str, Any]:
    """`syscalls.toml`, as it stands there."""
    return tomllib.loads(_POLICY.read_text())


def by_argument(policy: dict[str, Any]) -> Iterator[tuple[str, int, int, int]]:
    """Calls that are allowed by what an argument is: name, the argument's position, a mask, and its value under it."""
    yield "clone", 0, sum(policy["clone"]["refuse_flags"]), 0
    # Allowed are the maps that are not both shared and anonymous: one of the two bits is missing.
    for bit in policy["mmap"]["not_together"]:
        yield "mmap", 3, bit, 0
    for name, position in (("socketpair", 0), ("prctl", 0), ("fcntl", 1), ("ioctl", 1)):
        for value in policy[name]["values"]:  # these are C ints: the upper half of the register says nothing
            yield name, position, _C_INT, value
    # Python's resource module asks this way, of its own process (0) and of no other.
    yield "prlimit64", 0, _C_INT, 0


def program_file() -> int:
    """A descriptor that holds the program, at its start, for one sandbox to read."""
    descriptor = os.memfd_create("seccomp")
    os.write(descriptor, program())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
