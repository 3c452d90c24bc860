"""Computes bootstrap intervals for the summary of a batch."""

from array import array
from collections.abc import Iterator

import msgspec
import numpy as np

from api.numbers.bootstrap import bounds
from api.numbers.jobs import SummaryJob


class _Scored(msgspec.Struct):
    grader: str
    score: float | None


def run(job: SummaryJob, outcomes: Iterator[bytes]) -> bytes:
    """Returns two numbers or null for each grader, as JSON. Scores keep the order of the threads, because resamples are
    drawn by position.
    """
    scores = {label: array("d") for label in job.graders}
    decode = msgspec.json.Decoder(_Scored).decode
    for line in outcomes:
        outcome = decode(line)
        if outcome.score is not None and (of := scores.get(outcome.grader)) is not None:
            of.append(outcome.score)
    return msgspec.json.encode([bounds(np.array(of), job.resamples) for of in scores.values()])
