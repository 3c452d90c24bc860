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


def test_each_name_is_a_system_call() -> None:
    names = {*POLICY["allow"], *POLICY["absent"], *POLICY["no_effect"]}
    assert {name for name in names if not _known(name)} <= NEW


def test_no_name_is_there_twice() -> None:
    names = [*POLICY["allow"], *POLICY["absent"], *POLICY["no_effect"]]
    assert sorted(names) == sorted(set(names))


def test_what_is_dangerous_is_not_allowed_outright() -> None:
    assert [name for name in DANGEROUS if not _known(name)] == []
    assert DANGEROUS & {*POLICY["allow"]} == set()


def test_what_is_decided_by_arguments_is_not_allowed_outright() -> None:
    told = seccomp.policy()
    others = {*told["allow"], *told["absent"], *told["no_effect"]}
    assert not {rule.name for rule in seccomp.by_arguments(told)} & others
