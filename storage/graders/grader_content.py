"""The content that a version of a grader is created from."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import msgspec

from gradebox.outcome import Outcome
from gradebox.schemas import EnvironmentUse, Isolation, Kind, Report, Version


class Proved(msgspec.Struct, frozen=True):
    """A source that passed the five checks, and the settings it was checked with. Times are in s, memory in MiB."""

    source: str
    isolation: Isolation
    timeout_s: float
    memory_mb: int
    report: Report
    environment: EnvironmentUse | None = None
    threads: Sequence[bytes] = ()
    """The threads it was checked on, if they were sent with it: JSON lines, which are stored with the grader."""
    kind: Kind = "function"
    config: dict[str, Any] | None = None
    """The config that the source was generated from, for kinds other than `function`."""
    pinned: dict[str, str] = {}
    """The version of each `grader:KEY` that it asks."""
    proved_with_stand_ins: bool = False
    """Whether stand-ins answered its asks."""
    waits: bool = True
    """Whether a run may wait for its asks."""
    python: str | None = None
    """The version of Python that it was checked in, such as `3.13`."""

    @property
    def warnings(self) -> list[str]:
        """The warnings of the checks."""
        return self.report.warnings

    @property
    def sha256(self) -> str:
        """The SHA-256 of the source as UTF-8."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def warned(self, warning: str) -> "Proved":
        """A copy with one more warning."""
        report = self.report.model_copy(update={"warnings": [*self.report.warnings, warning]})
        return msgspec.structs.replace(self, report=report)

    def is_version(self, version: Version) -> bool:
        """Whether this version already has this content."""
        mine = (self.kind, self.sha256, self.isolation, self.timeout_s, self.memory_mb, self.environment, self.pinned)
        its = (
            *(version.kind, version.sha256, version.isolation_asked, version.timeout_s, version.memory_mb),
            *(version.environment, version.pinned),
        )
        return (
            mine == its
            and self.config == version.config
            and version.python in (None, self.python)
            and (self.proved_with_stand_ins or not version.proved_with_stand_ins)
        )

    def version(self, number: int) -> Version:
        """The version with this number."""
        if self.report.isolation is None:
            raise ValueError("a valid report says which isolation is in force")
        return Version(
            number=number,
            kind=self.kind,
            sha256=self.sha256,
            source=self.source,
            config=self.config,
            isolation=self.report.isolation,
            isolation_asked=self.isolation,
            timeout_s=self.timeout_s,
            memory_mb=self.memory_mb,
            environment=self.environment,
            asks=self.report.asks,
            waits=self.waits,
            groups=self.report.groups,
            pinned=self.pinned,
            proved_with_stand_ins=self.proved_with_stand_ins,
            test_run_ms=_mean_ms(self.report.outcomes),
            python=self.python,
            created_at=datetime.now(UTC),
            warnings=self.warnings,
        )


def _mean_ms(outcomes: Sequence[Outcome]) -> float | None:
    return round(fmean(outcome.run_ms for outcome in outcomes), 3) if outcomes else None


class Custom(msgspec.Struct, frozen=True):
    """A grader that is not run: its scores are recorded from outside. It has no settings, so all of its versions are
    equal.
    """

    kind: Kind = "custom"
    environment: None = None
    threads: Sequence[bytes] = ()
    warnings: list[str] = []

    def is_version(self, version: Version) -> bool:
        """Whether this version already has this content."""
        return version.kind == self.kind

    def version(self, number: int) -> Version:
        """The version with this number. Its limits have no meaning."""
        return Version(
            number=number,
            kind=self.kind,
            sha256=hashlib.sha256(b"{}").hexdigest(),
            source="",
            config={},
            isolation="completion",
            isolation_asked="auto",
            timeout_s=0.0,
            memory_mb=0,
            created_at=datetime.now(UTC),
        )


CUSTOM = Custom()
