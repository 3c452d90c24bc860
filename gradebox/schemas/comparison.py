"""A comparison of two graders' scores of the same threads: the wire schema."""

from typing import Literal

from pydantic import Field

from gradebox.notebook_tables import table
from gradebox.number_text import number_text
from gradebox.schemas.base import Schema
from gradebox.schemas.spending import Spending
from gradebox.schemas.summaries import Interval


class Compared(Schema):
    """One side of a comparison: all outcomes of one grader of one batch, with or without a partner."""

    batch: str
    grader: str
    rows: int = Field(description="number of outcomes, with or without a score")
    scored: int
    not_applicable: int
    errors: dict[str, int] = Field(description="number of errors by kind")
    mean: float | None = Field(description="mean of the scored outcomes")
    spent: Spending | None = Field(None, description="cost of its asks; null if it asked nothing")


class Flip(Schema):
    """A pair in which exactly one side passes."""

    id: str | int | None
    index_a: int
    index_b: int
    score_a: float
    score_b: float


class PairCounts(Schema):
    """Counts of pairs by their scores. Both axes span the same range, cut into ten parts of equal width."""

    low: float
    high: float
    counts: list[list[int]] = Field(
        description="a row for each part of the range for the first scores, a column for each part for the second"
    )


class Comparison(Schema):
    """Scores of the same rows in a batch `a` and a batch `b`. Differences are b minus a."""

    a: Compared
    b: Compared
    paired_by: Literal["id", "index"] = Field(description="`index` if one of the batches has no ids")
    pairs: int
    only_a: int = Field(description="rows of a without a partner in b")
    only_b: int
    repeated_ids: int = Field(
        description="rows of both with an id that an earlier row has; the second of a is paired with the second of b"
    )
    scored: int = Field(
        description="pairs in which both have a score; means, differences and counts of scores refer to these"
    )
    scored_only_a: int = Field(description="pairs with a score only in a: b failed, or did not apply")
    scored_only_b: int
    scored_neither: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None = Field(description="mean of b minus a")
    interval: Interval | None = Field(description="of the difference; null for a single pair and for equal differences")
    higher: int = Field(description="pairs with a higher score in b")
    lower: int
    same: int
    threshold: float = Field(description="lowest score that passes")
    passed_a: int
    passed_b: int
    flipped_up: int = Field(description="pairs that pass only in b")
    flipped_down: int = Field(description="pairs that pass only in a")
    pair_counts: PairCounts | None = Field(None, description="null if all scores are equal, or there are none")
    flips: list[Flip] = Field(description="the first flipped pairs, by descending difference")
    note: str | None = Field(
        None,
        description="why no pair has two scores; that rows stay unpaired because their ids differ in type; or that "
        "batches of different sizes are paired by position",
    )

    def __repr__(self) -> str:
        return self._in_brackets(self._told())

    def _repr_html_(self) -> str:
        sides = (self.a, self.b)
        rows: list[tuple[object, ...]] = [
            (f"{one.batch} {one.grader}", mean, passed, one.scored, sum(one.errors.values()), one.not_applicable)
            for one, mean, passed in zip(sides, (self.mean_a, self.mean_b), (self.passed_a, self.passed_b), strict=True)
        ]
        return table(("", "mean of pairs", "passed", "scored", "errors", "not applicable"), rows, self._told())

    def _told(self) -> str:
        bounds = (
            "" if self.interval is None else f" ({number_text(self.interval.low)} to {number_text(self.interval.high)})"
        )
        difference = "none" if self.difference is None else f"{number_text(self.difference)}{bounds}"
        told = (
            f"{self.scored:,} of {self.pairs:,} pairs: difference {difference}; "
            f"{self.flipped_up:,} flipped up, {self.flipped_down:,} down"
        )
        return told if self.note is None else f"{told}; {self.note}"
