"""What is loaded into a sandbox."""

from dataclasses import dataclass

from gradebox.schemas import Isolation


@dataclass(frozen=True, slots=True)
class GraderSource:
    """One source with the limits it runs under. Equal ones may share a loaded sandbox.

    Attributes:
        text: the source; at most `Limits.source_bytes` of UTF-8.
        isolation: between completions; `auto` is settled by the guest, from the source.
        timeout_s: for one completion, in seconds.
        memory_mb: for all processes of the sandbox together, in MiB.
    """

    text: str
    isolation: Isolation = "auto"
    timeout_s: float = 5.0
    memory_mb: int = 256
