"""Drops privileges of a process before it runs user code. Each layer holds independently of the others."""

import ctypes
import errno
import os
import resource

from sandbox.guest.kernel import scratch
from sandbox.guest.protocol.grader_limits import GraderLimits

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 4, 22, 38, 36
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_USERS = 0x10000000
_ENTERED = 0x00020000 | 0x04000000 | 0x08000000 | 0x40000000  # namespaces: mount, UTS, IPC, network
_MADE = 0x20000000 | 0x02000000  # namespaces: PID, control group
_READ_ONLY, _REMOUNT, _BIND = 1, 32, 4096
_RELATIME = 1 << 21
# These have the same numbers as the flags of mount(2).
_KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8  # of one instruction of a seccomp program

# Landlock: kernel documentation, userspace-api/landlock.rst
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL_FILE_ACCESS = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)  # by ABI version
_ALL_NET_ACCESS = 0b11
_SCOPE_ABSTRACT_UNIX_SOCKET = 0b01
_RANDOM = "/dev/urandom"  # with bubblewrap, a file of the image
_SYSTEM = ("/bin", "/lib", "/lib64", "/opt", "/usr")


_LESS_WILL_DO = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_SIGPENDING)  # no usual grader comes near them
_LIFETIME_S = 1 << 20  # of processor time: deadlines end a child that grades whole batches, not this limit


class _RulesetAttr(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # that of `_pack_`, which Python warns of from 3.14 on if it is not named
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def hide() -> None:
    """Prevents processes of the same user from reading or tracing this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def filter_calls(program: bytes) -> None:
    """Installs a seccomp program in this process; all processes that it starts from now on inherit it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    told = _Program(len(program) // _INSTRUCTION_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(told))


def enter(process: int, owner: int) -> None:
    """Moves this process, which has one thread, into the namespaces of another process.

    Children of this process get a new PID namespace, and a new control group namespace whose root is the control group
    of this process.

    The owner of a user namespace may enter it and all namespaces that belong to it (user_namespaces(7), setns(2)).

    Args:
        process: a pidfd of the other process.
        owner: a descriptor of the user namespace that the mounts belong to. It is that of the other process, or the one
            above it if the other process cannot change the mounts.

    Raises:
        OSError: the kernel refused.
    """
    _call("setns", owner, _USERS)
    _call("setns", process, _ENTERED)
    _make_read_only("/dev/null")
    try:
        _call("setns", process, _USERS)
    except OSError as error:
        if error.errno != errno.EINVAL:  # `owner` is that namespace, already entered
            raise
    _call("unshare", _MADE)


def _make_read_only(device: str) -> None:
    """Prevents changes to the times and the mode of a device, which all sandboxes and the host share.

    The device can still be written to: writes go to the device, not to the file system.
    """
    told = os.statvfs(device).f_flag
    flags = _REMOUNT | _BIND | _READ_ONLY | told & _KEPT_FLAGS | (_RELATIME if told & os.ST_RELATIME else 0)
    _call("mount", None, device.encode(), None, ctypes.c_ulong(flags), None)


def give_up_capabilities() -> None:
    """Drops all capabilities that entering a user namespace gives, for this process and all that it starts."""
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), *[ctypes.c_ulong(0)] * 3) == 0:
        capability += 1
    if ctypes.get_errno() != errno.EINVAL or not capability:  # EINVAL: the first number that is no capability
        raise OSError(ctypes.get_errno(), f"capability {capability}")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def adopt_orphans() -> None:
    """Makes this process the parent of all orphaned descendants, so that it can reap all of them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _prctl(option: int, value: int, more: int = 0) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def refuse_cores() -> None:
    """Prevents core dumps of this process, both to a file and to the program that `core_pattern` pipes cores to.

    A limit of 1 prevents both; a limit of 0 does not prevent the pipe (core(5)).
    """
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    if limits not in ((1, 1), (0, 0)):  # a process that starts with 0 may not raise it
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def set_rlimits(limits: GraderLimits) -> None:
    """Sets the limits that the kernel enforces for each process.

    Raises:
        ValueError: the hard limit of one that graders notice is lower. The host refuses a backend where that happens.
    """
    # RLIMIT_DATA counts memory that is really writable; RLIMIT_AS also counts memory that threads only reserve.
    for what, soft in (
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_AS, 4 * limits.memory_bytes + (1 << 30)),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_STACK, limits.stack_bytes),
        (resource.RLIMIT_CPU, _LIFETIME_S),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
    ):
        hard = resource.getrlimit(what)[1]
        if what in _LESS_WILL_DO and hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(what, (soft, soft))


def landlock_abi() -> int:
    """The kernel's Landlock ABI version, 0 if it has no Landlock."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def restrict_files() -> None:
    """Restricts file access with Landlock, if the kernel has it.

    The system's folders may be read and their files executed; the scratch folders may be written. The root folder has
    no rule: with one, files in the scratch folders could be executed, and /proc could be read if there is one.

    Raises:
        OSError: the kernel has Landlock and refused.
    """
    abi = landlock_abi()
    if abi == 0:
        return
    handled = _ALL_FILE_ACCESS[min(abi, len(_ALL_FILE_ACCESS) - 1)]
    attr = _RulesetAttr(handled, _ALL_NET_ACCESS if abi >= 4 else 0, _SCOPE_ABSTRACT_UNIX_SOCKET if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _landlock(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for folders, access in ((_SYSTEM, _READ_FILE | _READ_DIR | _EXECUTE), (scratch.FOLDERS, handled & ~_EXECUTE)):
            for folder in folders:
                if os.path.isdir(folder):  # pathlib costs a cold sandbox 5 ms
                    _allow(ruleset, folder, access)
        _allow(ruleset, "/dev/null", (_READ_FILE | _WRITE_FILE | _TRUNCATE) & handled)
        if os.path.exists(_RANDOM):
            _allow(ruleset, _RANDOM, _READ_FILE)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _landlock(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneathAttr(access, folder)
        _landlock(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(folder)


def _landlock(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock call {number}: {os.strerror(ctypes.get_errno())}")
    return result
