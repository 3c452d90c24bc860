"""The limits of a grader, set by the host and enforced by the guest."""

from struct import Struct
from typing import NamedTuple

AUTO, BATCH, COMPLETION = 0, 1, 2
LIMITS = Struct("!BIIQ12I")


class GraderLimits(NamedTuple):
    """The limits of a grader. The frame LOAD carries them."""

    isolation: int
    timeout_ms: int
    load_ms: int
    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    stack_bytes: int
    scratch_files: int
    stdout_bytes: int
    text_bytes: int
    details_bytes: int
    line_bytes: int
    depth: int
    keep_unknown: int
    has_packages: int
