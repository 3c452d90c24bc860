"""The seccomp filter, compiled from `syscalls.toml` by libseccomp."""

import errno
import os
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from sandbox.errors import IsolationUnavailable

_POLICY = Path(__file__).with_name("syscalls.toml")
_C_INT = 0xFFFFFFFF
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_HOW = "Install libseccomp: `apt-get install libseccomp2`, or your system's package of that name."


class Condition(NamedTuple):
    """A condition on one argument: it has this value under the mask."""

    position: int
    mask: int
    value: int


class Rule(NamedTuple):
    """A system call that is allowed, or that returns 0 and does nothing (`no_effect`), if all conditions hold."""

    name: str
    no_effect: bool
    conditions: tuple[Condition, ...]


@lru_cache(maxsize=2)
def program(sessions: bool = True) -> bytes:
    """Returns the BPF program of the policy. Without `sessions`, no process inside can create a session: if no control
    group divides the processors, the kernel gives each session an equal share of them.

    Raises:
        IsolationUnavailable: libseccomp is not installed.
    """
    seccomp = _library()
    told = policy()
    bpf = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    bpf.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    actions = {"allow": seccomp.ALLOW, "absent": seccomp.ERRNO(errno.ENOSYS), "no_effect": seccomp.ERRNO(0)}
    for kind, action in actions.items():
        for name in told[kind]:
            if sessions or name != "setsid":
                _add_rule(bpf, action, name)
    for rule in by_arguments(told):
        arguments = [seccomp.Arg(at, seccomp.MASKED_EQ, mask, value) for at, mask, value in rule.conditions]
        _add_rule(bpf, actions["no_effect" if rule.no_effect else "allow"], rule.name, *arguments)
    with tempfile.TemporaryFile() as file:
        bpf.export_bpf(file)
        file.seek(0)
        return file.read()


def number(name: str) -> int | None:
    """Returns the number of a system call on this machine; None if the machine or its libseccomp lacks the name.

    Raises:
        IsolationUnavailable: libseccomp is not installed.
    """
    seccomp = _library()
    try:
        found: int = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    except (ValueError, OSError):
        return None
    return found if found >= 0 else None


def _library() -> Any:
    try:
        import pyseccomp  # importing it loads the C library, which may be missing
    except (ImportError, OSError, RuntimeError) as error:
        raise IsolationUnavailable(f"libseccomp cannot be loaded ({error}). {_HOW}") from error
    return pyseccomp


def _add_rule(bpf: Any, action: Any, name: str, *arguments: Any) -> None:
    """Adds a rule. A call that this machine or its libseccomp lacks stays refused."""
    found = number(name)
    if found is not None:
        bpf.add_rule(action, found, *arguments)


def policy() -> dict[str, Any]:
    """The content of `syscalls.toml`."""
    return tomllib.loads(_POLICY.read_text())


def by_arguments(policy: dict[str, Any]) -> Iterator[Rule]:
    """The rules that depend on the arguments of a call."""
    yield Rule("clone", False, (Condition(0, sum(policy["clone"]["refuse_flags"]), 0),))
    # Mappings are allowed unless they are both shared and anonymous: one of the two bits must be missing.
    for bit in policy["mmap"]["not_together"]:
        yield Rule("mmap", False, (Condition(3, bit + sum(policy["mmap"]["refuse_flags"]), 0),))
    yield from when(policy["when"])


def when(tables: Iterable[dict[str, Any]]) -> Iterator[Rule]:
    """The rules of tables in the form of `syscalls.toml`: one for each combination of values."""
    for table in tables:
        for conditions in product(*map(_conditions, table["arguments"])):
            yield Rule(table["name"], table.get("no_effect", False), conditions)


def _conditions(argument: dict[str, Any]) -> list[Condition]:
    position = argument["at"]
    if "is" in argument:
        return [Condition(position, _ALL_BITS, argument["is"])]
    return [Condition(position, _C_INT, value) for value in argument["values"]]


def program_file(sessions: bool = True) -> int:
    """Returns a descriptor of a file with the program, at its start, for one sandbox to read."""
    descriptor = os.memfd_create("seccomp")
    os.write(descriptor, program(sessions))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
