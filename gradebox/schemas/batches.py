"""Batches, and the answers to single scores."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from gradebox.notebook_tables import table
from gradebox.schemas.base import Schema, StrictSchema
from gradebox.schemas.spending import Spending
from gradebox.schemas.summaries import Summary

FeedbackOn = Literal["failures", "all"]
FeedbackTarget = Literal["completion", "judge"]
Replies = Literal["kept", "new"]
BatchState = Literal["queued", "running", "finished", "cancelled", "failed"]
ENDED: tuple[BatchState, ...] = ("finished", "cancelled", "failed")
BATCH_COLUMNS = ("id", "state", "graders", "done", "total", "scored", "errors", "not_applicable", "created_at")


class BatchGrader(Schema):
    """One grader of a batch. The version is fixed when the batch is accepted."""

    key: str
    version: int
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.key}@{self.version}"


class BatchBudget(StrictSchema):
    """The budget of a batch for its asks, including all retries. Asks end when the first limit is reached."""

    usd: float | None = Field(None, description="limit of the cost in US dollars; null: no limit")
    tokens: int | None = Field(None, description="limit of input and output together; null: no limit")


class FeedbackOf(Schema):
    """The subject of a batch of feedback. The reason of each of its outcomes is the feedback."""

    batch: str = Field(description="id of the batch whose outcomes get feedback")
    grader: str = Field(description="grader of these outcomes, with its version")
    model: str = Field(description="key of the model that writes the feedback")
    on: FeedbackOn = Field(
        "failures", description="`all` outcomes with a score, or only `failures`: those that are too low or wrong"
    )
    of: FeedbackTarget = Field("completion", description="what is to be improved: the completion, or the judge")
    threshold: float | None = Field(
        None,
        description="scores below it are failures; with labels, scores and labels from it on count as 1, others as 0",
    )
    labels: str | None = Field(
        None, description="source of the right scores: a grader of the batch, a field, or `given` with the request"
    )
    instructions: str | None = Field(None, description="further instructions for the model")


class AwaitedServer(Schema):
    """A model's or endpoint's server that a batch waits for: it does not answer, or it limits the rate of requests."""

    asked: str = Field(description="`model:small-judge` or `endpoint:my-reward`")
    kind: Literal["unreachable", "rate_limited"]
    seconds: int = Field(description="time since its last answer; or time until it accepts requests again")

    def __str__(self) -> str:
        said = "has not answered for" if self.kind == "unreachable" else "accepts no requests for"
        return f"{self.asked.replace(':', ' ')} {said} {self.seconds} s"


class Batch(Schema):
    """Threads to be scored by one or more graders."""

    id: str
    project: str
    state: BatchState
    graders: list[BatchGrader]
    threads: int
    total: int = Field(description="outcomes when finished: threads times graders")
    done: int = Field(description="outcomes so far that can be read")
    underway: int = Field(0, description="further outcomes, in unfinished chunks: they cannot be read yet")
    scored: int
    errors: dict[str, int]
    not_applicable: int = Field(0, description="outcomes with neither a score nor an error, among those done")
    created_by: str | None = Field(None, description="id of the API key that created it")
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    budget: BatchBudget | None = Field(
        None, description="budget of its asks; null if only the project's budget applies"
    )
    replies: Replies = Field(
        "kept", description="`kept`: kept replies may answer its asks, and new ones are kept; `new`: neither"
    )
    feedback_of: FeedbackOf | None = Field(None, description="for a batch of feedback: its subject")
    waits_for: list[AwaitedServer] = Field([], description="servers that do not accept its asks at the moment")
    trouble: str | None = Field(
        None, description="why it makes no progress: no worker of its queue runs, or none can work"
    )
    kept: bool = Field(False, description="whether it is excluded from deletion after the retention time")
    weighted: bool = Field(
        False, description="whether it has several graders with weights: each thread has an outcome of `combined`, too"
    )
    weighted_mean: float | None = Field(
        None, description="sum of weight times mean, not divided by the weights, as soon as every grader has scores"
    )
    summary: list[Summary] = Field([], description="one summary for each grader; of the outcomes so far while it runs")
    combined: Summary | None = Field(
        None, description="summary of the outcomes of `combined` of an ended batch, if requested"
    )
    recorded: list[Summary] = Field(
        [], description="summaries of recorded scores: one for each grader of kind `custom` that has some"
    )
    summary_error: str | None = Field(None, description="why the summary of a grader is missing")

    def __repr__(self) -> str:
        return self._in_brackets(self.one_line)

    @property
    def one_line(self) -> str:
        """Its id, graders and state."""
        graders = ", ".join(map(str, self.graders))
        errors = f", {sum(self.errors.values())} of them errors" if self.errors else ""
        return f"{self.id} of {graders} {self.state}: {self.done} of {self.total} outcomes{errors}"

    @property
    def retryable(self) -> int | None:
        """Number of errors that another try may mend; None if a summary is missing or does not have it."""
        known = [one.retryable for one in self.summary if one.retryable is not None]
        return sum(known) if len(known) == len(self.graders) else None

    @property
    def summaries(self) -> list[Summary]:
        """All summaries: of the graders, the combined outcomes and the recorded scores."""
        return [*self.summary, *([] if self.combined is None else [self.combined]), *self.recorded]

    def _repr_html_(self) -> str:
        caption = f"batch {self.id}: {self.state}, {self.done:,} of {self.total:,} outcomes"
        columns = ("grader", "count", "scored", "mean", "deviation", "minimum", "maximum", "errors", "not applicable")
        rows = [
            (
                *(getattr(one, name) for name in columns[:-2]),
                ", ".join(f"{count:,} {kind}" for kind, count in sorted(one.errors.items())),
                one.not_applicable,
                " ".join(one.warnings),
            )
            for one in self.summaries
        ]
        spent = [(one.grader, *one.spent.cells) for one in self.summary if one.spent]
        asked = table(("grader", *Spending.model_fields), spent) if spent else ""
        return table((*columns, "warnings"), rows, caption) + asked


class ScoreAnswer(Schema):
    """The response of synchronous scoring: an outcome for each thread, in order."""

    outcomes: list[dict[str, Any]]
    summary: Summary | None
    summary_error: str | None = Field(None, description="why there is no summary")
