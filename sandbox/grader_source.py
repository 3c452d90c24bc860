"""The source that is loaded into a sandbox."""

from dataclasses import dataclass, field
from typing import Self

from gradebox.schemas import Isolation, Version
from gradebox.score import DETAILS_BYTES


@dataclass(frozen=True, slots=True)
class GraderSource:
    """One source with the limits it runs under. Equal ones may share a loaded sandbox.

    The project is part of it, because a module body can store data of one batch and reveal it in another.

    Attributes:
        text: the source.
        isolation: between completions; the guest resolves `auto` from the source.
        timeout_s: for one completion, in seconds.
        memory_mb: for all processes of the sandbox together, in MiB.
        project: the project whose completions it grades; empty for tools without projects.
        stdout_bytes: kept of the output of one completion; None for the value in the settings.
        line_bytes: of one thread; None for the value in the settings.
        line_depth: levels of nesting of one thread; None for the value in the settings.
        details_bytes: of the details of one score, as JSON; at most `fields.MAX_DETAILS`.
        environment: the SHA-256 of the content of the environment that it may import from; empty for none.
    """

    text: str
    isolation: Isolation = "auto"
    timeout_s: float = 5.0
    memory_mb: int = 256
    project: str = field(default="", kw_only=True)
    environment: str = field(default="", kw_only=True)
    stdout_bytes: int | None = field(default=None, kw_only=True)
    line_bytes: int | None = field(default=None, kw_only=True)
    line_depth: int | None = field(default=None, kw_only=True)
    details_bytes: int = field(default=DETAILS_BYTES, kw_only=True)

    @classmethod
    def of_version(cls, project: str, version: Version) -> Self:
        """Returns the source of a version of a project's grader."""
        return cls(
            version.source,
            version.isolation,
            version.timeout_s,
            version.memory_mb,
            project=project,
            environment=version.environment.sha256 if version.environment else "",
        )
