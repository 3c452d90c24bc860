"""What the program is asked to do."""

from typing import TypeAlias

import msgspec

from gradebox.outcome import Spent

OUT_OF_MEMORY = 9
"""The exit code of the program where its memory did not suffice."""
MOST_SCORES = 10_000
"""Of more, an interval is a normal one: the jackknife of BCa takes time that grows with the square."""
"""What a label begins with that is a field of the threads."""


class SummaryJob(msgspec.Struct, tag="summary"):
    """Bounds of the mean of each grader's scores, by bootstrap. Its stream is the outcomes of a batch."""

    graders: list[str]
    """Labels such as `exact@1`. The result has as many entries; None for a grader that has no interval."""
    resamples: int


class Side(msgspec.Struct):
    """The outcomes of one grader of a batch. `grader` is a label such as `exact@1`."""

    batch: str
    grader: str
    spent: Spent | None = None


class ComparisonJob(msgspec.Struct, tag="comparison"):
    """Its streams are the outcomes of both batches. The result is a `Comparison`."""

    a: Side
    b: Side
    threshold: float
    most_flips: int
    resamples: int


class AgreementJob(msgspec.Struct, tag="agreement"):
    """Its streams are the outcomes and the threads of the batch. The result is an `Agreement`.

    Attributes:
        label: another grader of the batch, or `metadata.` and the name of a field, and of a field in it.
    """

    of: Side
    label: str
    threshold: float | None
    resamples: int


class IndexJob(msgspec.Struct, tag="index"):
    """Its streams are the outcomes of one grader, and their threads. The result is the file that
    `storage/index_file.py` describes.

    Attributes:
        grader: a label such as `exact@1`.
        chunks: how many lines each chunk has, of both streams.
    """

    grader: str
    chunks: list[int]


class SearchJob(msgspec.Struct, tag="search"):
    """Its streams are, of each chunk, the outcomes of one grader and the threads. The result is a `TextFound`.

    Attributes:
        text: looked for without regard to case.
        chunks: how many lines each chunk has.
        time_s: after which the search ends.
    """

    text: str
    chunks: list[int]
    time_s: float


class TextFound(msgspec.Struct):
    """The rows whose texts hold a text, ascending.

    Attributes:
        searched: how many rows were looked at.
        is_cut: whether those are not all.
    """

    rows: list[int]
    searched: int
    is_cut: bool


Job: TypeAlias = SummaryJob | ComparisonJob | AgreementJob | IndexJob | SearchJob
