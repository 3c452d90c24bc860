"""What the program is asked to do."""

from typing import TypeAlias

import msgspec

OUT_OF_MEMORY = 9
"""The exit code of the program where its memory did not suffice."""
MOST_SCORES = 10_000
"""Of more, an interval is a normal one: the jackknife of BCa takes time that grows with the square."""


class SummaryJob(msgspec.Struct, tag="summary"):
    """Bounds of the mean of each grader's scores, by bootstrap. Its stream is the outcomes of a batch."""

    graders: list[str]
    """Labels such as `exact@1`. The result has as many entries; None for a grader that has no interval."""
    resamples: int


Job: TypeAlias = SummaryJob
