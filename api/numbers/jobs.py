"""The jobs of the program."""

from typing import TypeAlias

import msgspec

from gradebox.outcome import Spent

OUT_OF_MEMORY = 9
"""The exit code of the program when it runs out of memory."""
DISK_FULL = 10
"""Its exit code when the disk of the temporary folder is full, which its output goes to."""
MOST_SCORES = 10_000
"""The most scores for a bootstrap interval. With more it is a normal one: BCa's jackknife takes quadratic time."""


class SummaryJob(msgspec.Struct, tag="summary"):
    """Computes bootstrap bounds for the mean of each grader's scores. The stream holds the outcomes of a batch."""

    graders: list[str]
    """Labels such as `exact@1`. The result has an entry for each; None for a grader that has no interval."""
    resamples: int


class CombinedJob(msgspec.Struct, tag="combined"):
    """Summarises the combined outcomes of a batch. The stream holds the outcomes of its graders. The result is a
    `Summary`.
    """

    graders: list[str]
    """Labels such as `exact@1`."""
    weights: list[float]


class Side(msgspec.Struct):
    """The outcomes of one grader of a batch with a number of threads. `grader` is a label such as `exact@1`."""

    batch: str
    grader: str
    threads: int
    spent: Spent | None = None


class ComparisonJob(msgspec.Struct, tag="comparison"):
    """Compares two batches. The streams hold the outcomes of both. The result is a `Comparison`."""

    a: Side
    b: Side
    threshold: float
    most_flips: int
    resamples: int


class AgreementJob(msgspec.Struct, tag="agreement"):
    """Compares a grader with labels. The streams hold the outcomes and the threads of the batch. The result is an
    `Agreement`.

    Attributes:
        label: another grader of the batch, or `metadata.` and a path of field names.
    """

    of: Side
    label: str
    threshold: float | None
    resamples: int


class IndexJob(msgspec.Struct, tag="index"):
    """Creates an index. The streams hold the outcomes of one grader, and their threads. The result is the file
    described in `storage/outcomes/index_file.py`.

    Attributes:
        grader: a label such as `exact@1`.
        chunks: the number of lines of each chunk, which is the same in both streams.
    """

    grader: str
    chunks: list[int]


class SearchJob(msgspec.Struct, tag="search"):
    """Searches for a text. For each chunk there are two streams: the outcomes of one grader, and the threads. The
    result is a `TextFound`.

    Attributes:
        text: the text to find, ignoring case.
        chunks: the number of lines of each chunk.
        time_s: the time after which the search ends.
    """

    text: str
    chunks: list[int]
    time_s: float


class TextFound(msgspec.Struct):
    """The rows that contain a text, ascending.

    Attributes:
        searched: the number of rows that were searched.
        is_cut: whether `rows` may be incomplete.
    """

    rows: list[int]
    searched: int
    is_cut: bool


Job: TypeAlias = SummaryJob | CombinedJob | ComparisonJob | AgreementJob | IndexJob | SearchJob
