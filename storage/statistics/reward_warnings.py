"""Warnings about scores that may be unsuitable as rewards for training."""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from gradebox.schemas import WarningKind
from storage.statistics.outcome_tally import Tally

EQUAL_SCORES = 10  # minimum number of scores for the warning `equal`
NOT_APPLICABLE = 10  # minimum number of completions that are not applicable for the warning `few_apply`
JUDGED_SCORES = 30  # batches with fewer scores have no meaningful mean: they are neither compared nor recorded
JUDGED_BATCHES = 3
_SURE = 4.0  # standard errors
_MATTERS = 0.5  # standard deviations of single scores
_ROUNDING = 1e-9
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"  # sandboxes have that of the service


class Past(NamedTuple):
    """Statistics of a grader's scores in one finished batch."""

    version: int
    scored: int
    mean: float
    deviation: float


class Concern(NamedTuple):
    """One possible problem of the scores."""

    kind: WarningKind
    message: str


def read_past(text: str) -> list[Past]:
    """Parses the entries of earlier batches, which `entry` wrote, oldest first."""
    found = []
    for entry in text.split():
        version, scored, mean, m2, *_ = entry.split(":")
        found.append(Past(int(version), int(scored), float(mean), math.sqrt(float(m2) / int(scored))))
    return found


def entry(version: int, counted: Tally, batch_id: str) -> str | None:
    """The entry to record for a grader in a finished batch; None if there are too few scores."""
    if counted.scored < JUDGED_SCORES:
        return None
    return f"{version}:{counted.scored}:{counted.mean!r}:{counted.m2!r}:{batch_id}"


def concerns(grader: str, counted: Tally, past: Sequence[Past] = (), python: str | None = None) -> list[Concern]:
    """Possible problems of the scores of `grader` (for example `exact@3`), to check before training on them.

    `past`: the last finished batches of that grader, of any version, oldest first.
    `python`: the version of Python that the grader was checked in; None if it is unknown.
    """
    found = (
        _equal(counted),
        _errors(counted),
        _jump(grader, counted, past),
        _unanswered(counted),
        _few_apply(counted),
        other_python(grader, python),
    )
    return [concern for concern in found if concern is not None]


def _equal(counted: Tally) -> Concern | None:
    if counted.scored < EQUAL_SCORES or counted.minimum != counted.maximum or counted.groups_differ:
        return None
    return Concern(
        "equal",
        f"all {counted.scored:,} scores are {counted.minimum:g}: a reward that never differs trains nothing. "
        "Look at some completions with their scores, and at what the grader compares them to",
    )


def _errors(counted: Tally) -> Concern | None:
    errors, applicable = sum(counted.errors.values()), counted.count - counted.not_applicable
    if errors * 2 <= applicable:
        return None
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counted.errors.items(), key=lambda e: -e[1]))
    left = "the scores that are left may be a biased sample" if counted.scored else "there is no score at all"
    mend = "score these again" if {*counted.errors} == {"infrastructure"} else "mend the grader or the threads"
    return Concern(
        "errors",
        f"{errors:,} of {applicable:,} completions have no score ({kinds}): {left}. Read the error messages of some "
        f"outcomes, and {mend}",
    )


def _unanswered(counted: Tally) -> Concern | None:
    if not counted.unanswered:
        return None
    return Concern(
        "no_completion",
        f"{counted.unanswered:,} of {counted.count:,} threads do not end with a turn of the assistant, so "
        "thread.completion() is None for them: see which column or message holds the completion",
    )


def _few_apply(counted: Tally) -> Concern | None:
    apply = counted.count - counted.not_applicable
    if counted.not_applicable < NOT_APPLICABLE or apply * 10 > counted.count:
        return None
    return Concern(
        "few_apply",
        f"the grader applies to {apply:,} of {counted.count:,} completions, and the numbers are of these alone: "
        "read why some others are not applicable, and see whether these threads are meant for this grader",
    )


def other_python(grader: str, checked: str | None) -> Concern | None:
    """A concern if the grader was checked in another version of Python than this process has. None is unknown."""
    if checked in (None, _PYTHON):
        return None
    return Concern(
        "python",
        f"{grader} was checked in Python {checked}, and the service has {_PYTHON} now, in which it may score "
        "differently: upload it again, best with threads whose scores you know",
    )


def _jump(grader: str, counted: Tally, past: Sequence[Past]) -> Concern | None:
    """A concern if the mean is far from those of earlier batches; docs/observability.md explains the thresholds.

    The distance must exceed what chance and drift explain: four standard errors, computed from the differences between
    the earlier means and from the sampling of this batch. It must also be relevant: half a standard deviation of single
    scores.
    """
    if counted.scored < JUDGED_SCORES or len(past) < JUDGED_BATCHES:
        return None
    usual = sum(one.mean for one in past) / len(past)
    between = sum((one.mean - usual) * (one.mean - usual) for one in past) / (len(past) - 1)
    own = counted.m2 / counted.scored
    within = max(own, sum(one.deviation * one.deviation for one in past) / len(past))
    sure = _SURE * math.sqrt(between * (1 + 1 / len(past)) + own / counted.scored)
    needed = max(sure, _MATTERS * math.sqrt(within), _ROUNDING * abs(usual))
    distance = abs(counted.mean - usual)
    if not math.isfinite(distance) or not distance > needed:  # sums near the largest float overflow
        return None
    return Concern(
        "jump",
        f"the mean is {counted.mean:.4g}, and over the last {len(past)} batches it was {usual:.4g} "
        f"(from {min(one.mean for one in past):.4g} to {max(one.mean for one in past):.4g}). {_advice(grader, past)}",
    )


def _advice(grader: str, past: Sequence[Past]) -> str:
    version, before = grader.rpartition("@")[2], str(past[-1].version)
    if version != before:
        return f"Version {before} scored the batch before, {version} this one: see whether the change meant that"
    return "The grader is the same: see what changed in the threads or the model, and read some of the best completions"
