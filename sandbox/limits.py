"""Limits of a grader. Each default and maximum of the documentation, in one place."""

from gradebox import limits
from sandbox.grader_source import GraderSource
from sandbox.guest.protocol.fields import MAX_TEXT
from sandbox.guest.protocol.grader_limits import AUTO, BATCH, COMPLETION, GraderLimits

KIB, MIB = 1 << 10, 1 << 20

TIMEOUT_S, MAX_TIMEOUT_S = limits.TIMEOUT_S, limits.MAX_TIMEOUT_S
MEMORY_MB, MIN_MEMORY_MB, MAX_MEMORY_MB = limits.MEMORY_MB, limits.MIN_MEMORY_MB, limits.MAX_MEMORY_MB
LOAD_S, MAX_LOAD_S = 10.0, 120.0
PROCESSES, MAX_PROCESSES = 32, 64
SCRATCH_BYTES, MAX_SCRATCH_BYTES = 16 * MIB, 256 * MIB
SCRATCH_FILES, MIN_SCRATCH_FILES, MAX_SCRATCH_FILES = 1024, 64, 16_384  # each takes about 1 KiB of memory
SHARED_MEMORY_BYTES = 5 * MIB // 4  # /dev/shm: records, and the locks of multiprocessing
STDOUT_BYTES = 4 * KIB
MAX_STDOUT_BYTES = 31 * KIB  # less than half of a pipe: the supervisor empties one that holds more, to make room
TEXT_BYTES, MIN_TEXT_BYTES, MAX_TEXT_BYTES = 4 * KIB, 256, MAX_TEXT
MAX_LINE_BYTES = 16 * MIB
# Levels of nesting in one line. The fast decoder accepts fewer than the minimum, so it need not count them. With more
# than the maximum, recursive graders would fail.
LINE_DEPTH, MIN_LINE_DEPTH, MAX_LINE_DEPTH = 64, 16, 201
FEEDBACK_LINE_DEPTH = MAX_LINE_DEPTH + 2  # its metadata holds a thread, and an outcome with details
OPEN_FILES = 128
FILE_BYTES = 8 * MIB
STACK_BYTES = 8 * MIB
SANDBOX_MIB = 48  # for the supervisor, the template and the scratch, in addition to a grader's memory
ENVIRONMENT_FILES = 50_000
ENVIRONMENT_MEMORY_MB = 512  # default for a grader with packages
ENVIRONMENT_LOAD_TIMES = 3  # a grader with packages may take this many times as long to load
OWN_PROCESSES = 3  # supervisor, template, child

_ISOLATION = {"auto": AUTO, "batch": BATCH, "completion": COMPLETION}


def limits_of(
    source: GraderSource,
    load_s: float,
    line_bytes: int,
    stdout_bytes: int,
    keep_unknown: bool = False,
    processes: int = PROCESSES,
    scratch_files: int = SCRATCH_FILES,
    text_bytes: int = TEXT_BYTES,
    line_depth: int = LINE_DEPTH,
) -> GraderLimits:
    """Returns the limits that are sent to the guest for one grader."""
    return GraderLimits(
        isolation=_ISOLATION[source.isolation],
        timeout_ms=int(source.timeout_s * 1000),
        load_ms=int(load_s * 1000) * (ENVIRONMENT_LOAD_TIMES if source.environment else 1),
        memory_bytes=source.memory_mb * MIB,
        processes=processes + OWN_PROCESSES,
        open_files=OPEN_FILES,
        file_bytes=FILE_BYTES,
        stack_bytes=STACK_BYTES,
        scratch_files=scratch_files,
        stdout_bytes=stdout_bytes if source.stdout_bytes is None else source.stdout_bytes,
        text_bytes=text_bytes,
        details_bytes=source.details_bytes,
        line_bytes=line_bytes if source.line_bytes is None else source.line_bytes,
        depth=line_depth if source.line_depth is None else source.line_depth,
        keep_unknown=keep_unknown,
        has_packages=bool(source.environment),
    )
