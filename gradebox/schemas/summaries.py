"""The summary of one grader's scores over a batch."""

from typing import Literal

from pydantic import Field

from gradebox.number_text import number_text
from gradebox.schemas.base import Schema
from gradebox.schemas.spending import Spending

WarningKind = Literal["equal", "errors", "jump", "no_completion", "few_apply", "python"]


class HistogramBin(Schema):
    """Counts the scores from `low` up to `high`; the last bin includes its upper end."""

    low: float
    high: float
    count: int


class ValueSummary(Schema):
    """Statistics of the values that scores had under one name."""

    count: int
    mean: float | None
    minimum: float
    maximum: float


class Interval(Schema):
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95
    method: Literal["bca", "normal"] = Field(
        description="`bca`: bias-corrected and accelerated bootstrap; `normal`: normal approximation"
    )
    resamples: int | None = Field(None, description="number of bootstrap resamples")


class BiasCount(Schema):
    """Number of decisions made in both orders, and how many of them differ."""

    checked: int
    detected: int


class Summary(Schema):
    """Statistics of the scores of one grader over a batch.

    Quantiles and histogram are exact for up to 5,000 different scores. Beyond that they count neighbouring scores as
    equal, about 0.1 % of the scores at a time.
    """

    grader: str
    weight: float
    count: int = Field(description="number of outcomes, with or without a score")
    scored: int
    errors: dict[str, int] = Field(description="number of errors by kind")
    retryable: int | None = Field(
        None, description="number of errors that another try may mend; null if an earlier version did not count them"
    )
    not_applicable: int = Field(
        0, description="outcomes without score and error: the grader does not apply to the thread"
    )
    mean: float | None
    interval: Interval | None = Field(
        None, description="of the mean, by bootstrap if requested; null for a single score and for equal scores"
    )
    passed: int | None = Field(
        None, description="number of scores of at least 1; null if an earlier version did not count them"
    )
    pass_rate: float | None = Field(None, description="share of the scores that are at least 1")
    options: dict[str, int] = Field(
        {}, description="number of outcomes by `option` in `details`, for the first 16 options"
    )
    options_left_out: int = Field(
        0, description="outcomes with further options, or options of more than 100 characters"
    )
    positional_bias: BiasCount | None = Field(
        None, description="of judges that ask in both orders; null if no decision was made in both"
    )
    deviation: float | None = Field(description="population standard deviation")
    minimum: float | None
    maximum: float | None
    quantiles: dict[str, float] = Field(description="by name: p05, p25, p50, p75, p95")
    histogram: list[HistogramBin]
    run_ms_mean: float | None
    values: dict[str, ValueSummary] = Field(
        {}, description="statistics of the named values of the scores, for the first 16 names"
    )
    values_left_out: int = Field(0, description="number of values with further names")
    spent: Spending | None = Field(None, description="cost of its asks; null if it asked nothing")
    warnings: list[str] = Field(description="why these scores may be useless as a reward for training")
    warning_kinds: list[WarningKind] = Field(
        [],
        description="kinds of the warnings, in the same order, for programs",
    )

    def __repr__(self) -> str:
        mean = "no mean" if self.mean is None else f"mean {number_text(self.mean)}"
        return self._in_brackets(f"{self.grader}: {mean}, {self.scored} of {self.count} scored")
