"""The report of a validation."""

import re
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, PlainSerializer, PlainValidator, computed_field

from gradebox.frame import Outcomes
from gradebox.notebook_tables import table
from gradebox.outcome import Outcome
from gradebox.schemas.base import Schema

CheckName = Literal["syntax", "structure", "signature", "execution", "test_run"]
CHECKS: tuple[CheckName, ...] = ("syntax", "structure", "signature", "execution", "test_run")
_PLACE = re.compile(r"line ([0-9]{1,9}): (.*)", re.DOTALL)
_ON_ANNOTATION = re.compile(r"line \d+: annotate ")


def on_scores(warnings: list[str]) -> list[str]:
    """The warnings of the checks but for those about annotations, since no score depends on them."""
    return [warning for warning in warnings if not _ON_ANNOTATION.match(warning)]


class Check(Schema):
    """One of the five checks of a validation."""

    name: CheckName
    passed: bool
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str | None = Field(None, description="only frames of the grader's source")
    duration_ms: float

    @property
    def unnamed_line(self) -> int | None:
        """The line that failed, unless the message names it."""
        named = re.search(rf"\bline {self.line}\b", self.message)
        return None if self.passed or named else self.line


def _outcomes(value: object) -> Outcomes:
    return value if isinstance(value, Outcomes) else Outcomes(msgspec.convert(value, list[Outcome]))


class WarningPlace(Schema):
    """A warning about one line of the source; the message does not repeat the line number."""

    line: int
    message: str


class Report(Schema):
    """The result of the five checks of one source, which is true if the grader is valid. If a check fails, it is the
    last in `checks`.
    """

    valid: bool
    checks: list[Check]
    warnings: list[str] = Field([])
    isolation: Literal["batch", "completion"] | None = Field(
        None, description="the isolation that applies; for `auto`, the one chosen for this source"
    )
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    groups: bool = Field(False, description="whether a line is a group of threads, each with its own score")
    outcomes: Annotated[
        Outcomes,
        PlainValidator(_outcomes, json_schema_input_type=list[dict[str, Any]]),
        PlainSerializer(msgspec.to_builtins, return_type=list[dict[str, Any]]),
    ] = Field(default_factory=Outcomes, description="one outcome for each thread of the test run")

    @computed_field(description="the warnings about one line of the source, for editors")  # type: ignore[prop-decorator]
    @property
    def places(self) -> list[WarningPlace]:
        """The warnings that refer to a line of the source, for editors."""
        found = (_PLACE.fullmatch(warning) for warning in self.warnings)
        return [WarningPlace(line=int(place[1]), message=place[2]) for place in found if place]

    def __bool__(self) -> bool:
        return self.valid

    def __repr__(self) -> str:
        return self._in_brackets(str(self))

    def __str__(self) -> str:
        return self.with_warnings(self.warnings)

    def with_warnings(self, warnings: list[str]) -> str:
        """What failed, if anything did, and these warnings as text."""
        lines = ["the grader is valid" if self.valid else "the grader is not valid"]
        if (failed := self.failed) is not None:
            where = f" (line {failed.unnamed_line})" if failed.unnamed_line else ""
            lines = [f"check {failed.name!r} failed{where}: {failed.message}"]
            lines += [failed.traceback.rstrip()] if failed.traceback else []
        return "\n".join([*lines, *(f"warning: {each}" for each in warnings)])

    @property
    def warnings_on_scores(self) -> list[str]:
        """The warnings but for those about annotations: they may explain a failed check."""
        return on_scores(self.warnings)

    @property
    def failed(self) -> Check | None:
        """The check that failed, or None."""
        return next((check for check in self.checks if not check.passed), None)

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            ("✓" if check.passed else "✗", check.name, check.line, check.message) for check in self.checks
        ]
        rows += [("!", "warning", None, each) for each in self.warnings]
        return table(("", "check", "line", "message"), rows) + (self.outcomes._repr_html_() if self.outcomes else "")
