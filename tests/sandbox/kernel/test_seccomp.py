import os
import struct
import tomllib
from pathlib import Path

import pytest

from sandbox.kernel import seccomp

pyseccomp = pytest.importorskip("pyseccomp")

POLICY = tomllib.loads(Path(seccomp.__file__).with_name("syscalls.toml").read_text())
ARCHITECTURES = [pyseccomp.Arch.X86_64, pyseccomp.Arch.AARCH64, pyseccomp.Arch.X86, pyseccomp.Arch.ARM]
# Newer than the libseccomp of some systems, which has no numbers for these calls; they stay refused there.
NEW = {"futex_wait", "futex_wake", "fchmodat2"}
DANGEROUS = {
    "socket", "connect", "bind", "listen", "ptrace", "mount", "unshare", "setns", "bpf", "io_uring_setup", "keyctl",
    "userfaultfd", "perf_event_open", "process_vm_readv", "chroot", "pivot_root", "memfd_create", "clone3", "shmget",
    "kexec_load", "init_module", "open_by_handle_at", "personality", "clone", "mmap", "ioctl", "fcntl",
    "prctl", "setsockopt", "prlimit64", "setrlimit", "madvise", "fsync",
}  # fmt: skip


def _known(name: str) -> bool:
    for architecture in ARCHITECTURES:
        try:
            pyseccomp.resolve_syscall(architecture, name)
        except (ValueError, OSError):
            continue
        return True
    return False


def test_the_policy_compiles_to_a_program_for_the_kernel() -> None:
    program = seccomp.program()
    assert len(program) % 8 == 0
    assert 100 < len(program) // 8 <= 4096  # the kernel's limit
    operation = struct.unpack_from("=H", program)[0]
    assert operation == 0x20  # starts with a load of the architecture
    assert struct.unpack_from("=I", program, 4)[0] == 4


def test_each_name_is_a_system_call() -> None:
    names = {*POLICY["allow"], *POLICY["absent"], *POLICY["no_effect"]}
    assert {name for name in names if not _known(name)} <= NEW


def test_no_name_is_there_twice() -> None:
    names = [*POLICY["allow"], *POLICY["absent"], *POLICY["no_effect"]]
    assert sorted(names) == sorted(set(names))


def test_what_is_dangerous_is_not_allowed_outright() -> None:
    assert [name for name in DANGEROUS if not _known(name)] == []
    assert DANGEROUS & {*POLICY["allow"]} == set()


def test_each_sandbox_gets_a_file_of_its_own() -> None:
    first, second = seccomp.program_file(), seccomp.program_file()
    try:
        assert first != second
        assert os.read(first, 1 << 20) == os.read(second, 1 << 20) == seccomp.program()
    finally:
        os.close(first)
        os.close(second)


def test_what_is_decided_by_arguments_is_not_allowed_outright() -> None:
    told = seccomp.policy()
    assert not {rule.name for rule in seccomp.by_arguments(told)} & {
        *told["allow"],
        *told["absent"],
        *told["no_effect"],
    }


def test_each_combination_of_arguments_is_a_rule() -> None:
    table = {"name": "x", "arguments": [{"at": 0, "values": [1, 2]}, {"at": 1, "is": 0}]}
    first, second = seccomp.when([table])
    assert not first.no_effect
    assert [condition.value for condition in first.conditions] == [1, 0]
    assert [condition.value for condition in second.conditions] == [2, 0]


def test_without_sessions_the_program_differs_in_that_alone() -> None:
    with_sessions, without = seccomp.program(), seccomp.program(sessions=False)
    assert with_sessions != without
    assert abs(len(with_sessions) - len(without)) <= 16
