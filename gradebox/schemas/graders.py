"""Graders and their versions."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field
from pydantic_core import to_json

from gradebox.notebook_tables import table_of
from gradebox.number_text import number_text
from gradebox.schemas.base import Schema
from gradebox.schemas.environments import EnvironmentUse

Isolation = Literal["auto", "batch", "completion"]
# The service generates the source of a grader of these kinds from its config.
WrittenKind = Literal[
    "binary_judge",
    "external",
    "judge",
    "faithfulness",
    "context_relevancy",
    "answer_relevancy",
    "checks",
    "combine",
    "multi_criteria",
    "pairwise_judge",
]
Kind = Literal["function", "custom"] | WrittenKind
_LIMITS = ("isolation", "isolation_asked", "timeout_s", "memory_mb")
_SETTINGS = ("kind", *_LIMITS, "environment", "asks", "pinned", "groups")


class Version(Schema):
    """One immutable source of a grader, and the config that it was generated from. Only kind `custom` has no source."""

    number: int
    kind: Kind = "function"
    sha256: str = Field(description="SHA-256 of the validated source, as UTF-8; for kind `custom`, of its config")
    source: str = Field(description="empty for kind `custom`, which is not run")
    config: dict[str, Any] | None = Field(
        None,
        description="settings from which the source is generated; null for kind `function`, `{}` for kind `custom`",
    )
    isolation: Literal["batch", "completion"] = Field(
        description="the isolation that applies; for `auto`, the one chosen"
    )
    isolation_asked: Isolation
    timeout_s: float
    memory_mb: int
    environment: EnvironmentUse | None = Field(
        None, description="environment with the packages that it may import; null: none"
    )
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    waits: bool = Field(
        True, description="whether its asks may have to wait; false if it only combines graders that ask nothing"
    )
    groups: bool = Field(False, description="whether a line is a group of threads, each with its own score")
    pinned: dict[str, str] = Field({}, description="version asked for each `grader:KEY`, as `KEY@NUMBER`")
    proved_with_stand_ins: bool = Field(False, description="whether stand-ins answered its asks in the test run")
    test_run_ms: float | None = Field(
        None, description="mean time of one thread in the test run, in ms; null if an earlier release checked it"
    )
    python: str | None = Field(
        None, description="version of Python of its checks, such as 3.13; null if an earlier release made them"
    )
    created_at: datetime
    warnings: list[str] = Field([])

    def changes(self, newer: "Version") -> dict[str, tuple[object, object]]:
        """The settings that a newer version changed, such as `{"timeout_s": (5.0, 10.0)}`; not the source."""
        pairs = {name: (getattr(self, name), getattr(newer, name)) for name in _SETTINGS}
        old, new = self.config or {}, newer.config or {}
        pairs |= {f"config.{name}": (old.get(name), new.get(name)) for name in {**old, **new}}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def __repr__(self) -> str:
        where = f", environment {self.environment.label}" if self.environment else ""
        runs = f"{self.isolation} isolation, {self.timeout_s:g} s, {self.memory_mb} MiB{where}"
        return self._in_brackets(f"{self.number}: {self.kind}{'' if self.kind == 'custom' else f', {runs}'}")


def setting_text(value: object) -> str:
    """One side of `Version.changes` as one line of text."""
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, EnvironmentUse) or (isinstance(value, str) and value.isprintable()):
        return str(value)
    return to_json(value).decode()


_PATH = r"^(inputs|output|messages)(\.[^.\x00-\x1f]{1,100}){0,9}$"


class WeaveMapping(Schema):
    """Where Weave's calls hold the parts of a thread: paths of names and list positions, separated by dots. Paths that
    begin with `messages` apply to agent turns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    completion: str | None = Field(
        None, pattern=_PATH, description="path of the completion; null: `output`, if it is a text or a message"
    )
    prompt: str | None = Field(
        None, pattern=_PATH, description="path of the prompt; null: `inputs.messages`, if present"
    )
    metadata: str | None = Field(None, pattern=_PATH, description="path of an object; null: `inputs`")


class GraderRecord(Schema):
    """A named scoring rule of a project, with its newest version."""

    project: str
    key: str
    kind: Kind = Field("function", description="scores of a `custom` grader are recorded from outside")
    name: str
    description: str
    locked: bool
    version: int
    sha256: str
    isolation: Literal["batch", "completion"]
    timeout_s: float
    memory_mb: int
    test_threads: int = Field(0, description="number of stored test threads, which later proofs use")
    environment: EnvironmentUse | None = Field(
        None, description="environment with the packages that its newest version may import"
    )
    asks: list[str] = Field([], description="what its newest version may ask")
    groups: bool = Field(False, description="whether its newest version takes groups of threads")
    warnings: list[str] = Field([], description="warnings of the checks of its newest version")
    weave: WeaveMapping | None = Field(
        None, description="where calls of Weave hold the parts of a thread, as configured"
    )
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        isolation = "" if self.kind == "custom" else f", {self.isolation} isolation"
        about = f": {self.description}" if self.description else ""
        return self._in_brackets(f"{self.key}@{self.version} of project {self.project}, {self.kind}{isolation}{about}")

    def _repr_html_(self) -> str:
        return table_of([self], GRADER_COLUMNS)


# The columns of listings, by field name.
GRADER_COLUMNS = ("key", "kind", "version", "locked", "isolation", "environment", "updated_at", "description")
