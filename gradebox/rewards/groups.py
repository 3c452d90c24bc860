"""Arranges completions in groups for a grader of groups, and distributes its results to the completions."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from gradebox.outcome import CompletionScore, Outcome, completion_scores, details_of


def neighbours(keys: Sequence[object]) -> list[list[int]]:
    """The positions of each run of equal adjacent keys."""
    return [list(places) for _, places in groupby(range(len(keys)), keys.__getitem__)]


def equal(keys: Sequence[str]) -> list[list[int]]:
    """The positions of equal keys, adjacent or not."""
    found: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return list(found.values())


def lines(threads: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Make a line for each group from the threads at its positions."""
    return [{"threads": [threads[place] for place in group]} for group in groups]


def of_each(outcomes: Sequence[Outcome], groups: Sequence[Sequence[int]]) -> list[Outcome]:
    """Return an outcome for each thread, in order of position, from the outcomes of the groups."""
    found: dict[int, Outcome] = {}
    for outcome, group in zip(outcomes, groups, strict=True):
        found.update(zip(group, _each(outcome, group), strict=True))
    return [found[place] for place in sorted(found)]


def _each(outcome: Outcome, group: Sequence[int]) -> list[Outcome]:
    """Split a group's outcome by completion. Without scores per completion, each gets the group's error or reason."""
    run_ms = outcome.run_ms / len(group)
    details = details_of(outcome)
    none = CompletionScore(None, error=outcome.error, not_applicable=outcome.not_applicable, details=details)
    scores = [none] * len(group) if outcome.scores is None else completion_scores(outcome)
    return [
        Outcome(
            place,
            outcome.grader,
            each.score,
            run_ms,
            reason=each.reason,
            error=each.error,
            values=each.values,
            not_applicable=each.not_applicable,
            details=each.details,
        )
        for place, each in zip(group, scores, strict=True)
    ]
