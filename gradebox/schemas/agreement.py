"""Agreement between a grader and labels: the wire schema."""

from pydantic import Field

from gradebox.notebook_tables import table
from gradebox.schemas.base import Schema
from gradebox.schemas.comparison import PairCounts
from gradebox.schemas.spending import Spending
from gradebox.schemas.summaries import BiasCount, Interval


class Correlation(Schema):
    """Spearman's rank correlation. Null if there are too few rows, or one side is constant."""

    count: int
    value: float | None
    p_value: float | None


class LengthQuarter(Schema):
    """A quarter of the completions, ordered by length."""

    shortest: int = Field(description="characters")
    longest: int
    count: int
    mean: float | None = Field(description="mean of the grader's scores")


class LengthBias(Schema):
    """How the grader's scores correlate with the length of completions, in characters."""

    score: Correlation = Field(description="correlation of score and length, over all rows that the grader scored")
    excess: Correlation = Field(
        description="correlation of (score minus label) and length: length bias that the labels do not explain"
    )
    quarters: list[LengthQuarter] = Field(description="quarters, from the shortest completions to the longest")


class Agreement(Schema):
    """The scores of a grader compared with labels, for one batch."""

    batch: str
    grader: str
    label: str = Field(description="a grader, such as `human@1`, or a field, such as `metadata.label`")
    rows: int
    scored: int = Field(description="rows with a score and a label; all fields below except `length` refer to these")
    only_grader: int = Field(description="rows with a score and no label")
    only_label: int
    neither: int
    grader_mean: float | None
    label_mean: float | None
    difference: float | None = Field(description="mean of score minus label")
    interval: Interval | None = Field(description="of the difference; null for a single row and for equal differences")
    spearman: Correlation
    threshold: float | None = Field(description="if set, scores and labels from it on count as 1, others as 0")
    values: list[float] = Field(description="distinct values, ascending; empty if there are more than 20")
    confusion: list[list[int]] = Field(
        description="counts: a row for each value as label, a column for each value as score"
    )
    grader_rates: list[float] = Field(description="share of each value among the scores")
    label_rates: list[float] = Field(description="share of each value among the labels: the base rates")
    accuracy: float | None = Field(description="share of rows whose score equals the label")
    accuracy_interval: Interval | None
    kappa: float | None = Field(description="Cohen's kappa; null if both give the same single value to all rows")
    precision: float | None = Field(description="of value 1, if the values are 0 and 1")
    recall: float | None
    pair_counts: PairCounts | None = Field(
        None, description="a row for each tenth of the range of labels; null if all values are equal"
    )
    length: LengthBias
    position: BiasCount
    spent: Spending | None = Field(None, description="cost of the grader's asks")
    note: str | None = Field(None, description="if no row has a score and a label: why")

    def __repr__(self) -> str:
        return self._in_brackets(self._told())

    def _repr_html_(self) -> str:
        rows = [(label, *counts) for label, counts in zip(self.values, self.confusion, strict=True)]
        return table(("", *map(str, self.values)), rows, self._told())

    def _told(self) -> str:
        kappa = "none" if self.kappa is None else f"{self.kappa:.3f}"
        return f"{self.grader} (columns) and {self.label} (rows), {self.scored:,} rows: kappa {kappa}"
