"""Compares the scores of the same rows in two batches."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from api.numbers.bootstrap import interval
from api.numbers.jobs import ComparisonJob, Side
from api.numbers.outcome_column import Array, OutcomeColumn, mean_of, why_no_rows
from api.numbers.pair_counts import pair_counts
from gradebox.schemas.comparison import Compared, Comparison, Flip
from storage.statistics.summary import spent

Positions = np.ndarray[Any, np.dtype[np.int64]]
_Key = str | int | tuple[str | int, int]


class _Pairs:
    """The rows of two columns that belong together, as positions in each column, in the order of a.

    Attributes:
        by: what rows are paired by.
        repeated: number of rows, in both columns, with an id that an earlier row of the column has.
        a: the paired positions in the first column.
        b: those in the second.
        unlike: number of pairs that there would be if a number and its text were one id.
    """

    def __init__(self, a: OutcomeColumn, b: OutcomeColumn) -> None:
        has_ids = all(any(one is not None for one in column.ids) for column in (a, b))
        self.by: Literal["id", "index"] = "id" if has_ids else "index"
        keys_a, keys_b = (_keys(one.ids) if has_ids else _numbers(one.indices) for one in (a, b))
        self.repeated = sum(type(key) is tuple for keys in (keys_a, keys_b) for key in keys)
        found = [(position, keys_b[key]) for key, position in keys_a.items() if key in keys_b]
        self.a: Positions = np.array([one for one, _ in found], dtype=np.int64)
        self.b: Positions = np.array([other for _, other in found], dtype=np.int64)
        self.unlike = len(_texts(keys_a, keys_b) & _texts(keys_b, keys_a)) if has_ids else 0


def _numbers(indices: Positions) -> dict[_Key, int]:
    return {index: position for position, index in enumerate(indices.tolist())}


def _keys(ids: Sequence[str | int | None]) -> dict[_Key, int]:
    """Maps each id to its position. The second row with the same id gets the key `(id, 1)`, and so on."""
    seen: dict[str | int, int] = {}
    keys: dict[_Key, int] = {}
    for position, one in enumerate(ids):
        if one is not None:
            before = seen.get(one, 0)
            seen[one] = before + 1
            keys[(one, before) if before else one] = position
    return keys


def _texts(keys: Collection[_Key], others: Collection[_Key]) -> set[_Key]:
    """The keys that are not in `others`, with their ids as text."""
    return {(str(key[0]), key[1]) if isinstance(key, tuple) else str(key) for key in keys if key not in others}


def run(job: ComparisonJob, a: OutcomeColumn, b: OutcomeColumn) -> Comparison:
    """Compares the columns of both sides."""
    pairs = _Pairs(a, b)
    of_a, of_b = a.scores[pairs.a], b.scores[pairs.b]
    has_a, has_b = ~np.isnan(of_a), ~np.isnan(of_b)
    both = has_a & has_b
    scores_a, scores_b = of_a[both], of_b[both]
    with np.errstate(all="ignore"):
        differences = scores_b - scores_a
    passed_a, passed_b = scores_a >= job.threshold, scores_b >= job.threshold
    flipped = np.flatnonzero(passed_a != passed_b)
    largest = flipped[np.argsort(-np.abs(differences[flipped]), kind="stable")][: job.most_flips]
    return Comparison(
        a=_side(job.a, a),
        b=_side(job.b, b),
        paired_by=pairs.by,
        pairs=len(pairs.a),
        only_a=len(a.ids) - len(pairs.a),
        only_b=len(b.ids) - len(pairs.b),
        repeated_ids=pairs.repeated,
        scored=len(scores_a),
        scored_only_a=int((has_a & ~has_b).sum()),
        scored_only_b=int((has_b & ~has_a).sum()),
        scored_neither=int((~has_a & ~has_b).sum()),
        mean_a=mean_of(scores_a),
        mean_b=mean_of(scores_b),
        difference=mean_of(differences),
        interval=interval(differences, job.resamples),
        higher=int((scores_b > scores_a).sum()),
        lower=int((scores_b < scores_a).sum()),
        same=int((scores_b == scores_a).sum()),
        threshold=job.threshold,
        passed_a=int(passed_a.sum()),
        passed_b=int(passed_b.sum()),
        flipped_up=int((passed_b & ~passed_a).sum()),
        flipped_down=int((passed_a & ~passed_b).sum()),
        pair_counts=pair_counts(scores_a, scores_b),
        flips=[
            _flip(a, b, int(at), int(other), scores_a[number], scores_b[number])
            for number, at, other in zip(largest, pairs.a[both][largest], pairs.b[both][largest], strict=True)
        ],
        note=_note(job, pairs, [side for side, rows in ((job.a, a), (job.b, b)) if not rows.ids], scored=len(scores_a)),
    )


def _note(job: ComparisonJob, pairs: _Pairs, empty: Sequence[Side], *, scored: int) -> str | None:
    """What the user should know before relying on the numbers."""
    if pairs.unlike:
        return (
            f"rows whose id is a number in one batch and text in the other: {pairs.unlike:,}. The number 1 and the "
            'text "1" are two ids, so these rows are not paired: send the threads of one batch again, with ids of the '
            "other's type"
        )
    if scored and pairs.by == "index" and job.a.threads != job.b.threads:
        return (
            f"batch {job.a.batch} has {job.a.threads:,} threads and {job.b.batch} {job.b.threads:,}, and not both have "
            "ids: rows are paired by position, and the pairs are wrong unless one batch begins with the threads of the "
            "other. Send them with ids"
        )
    if scored:
        return None
    if empty:
        return why_no_rows(empty[0])
    if pairs.a.size:
        return "no pair has a score on both sides"
    of = "ids" if pairs.by == "id" else "positions"
    return (
        f"the rows of batch {job.a.batch} have other {of} than those of {job.b.batch}: compare batches of equal threads"
    )


def _side(side: Side, column: OutcomeColumn) -> Compared:
    scores: Array = column.scores
    scored = scores[~np.isnan(scores)]
    return Compared(
        batch=side.batch,
        grader=side.grader,
        rows=len(scores),
        scored=len(scored),
        not_applicable=len(scores) - len(scored) - column.errors.total(),
        errors=dict(column.errors),
        mean=mean_of(scored),
        spent=spent(side.spent),
    )


def _flip(a: OutcomeColumn, b: OutcomeColumn, at: int, other: int, score_a: float, score_b: float) -> Flip:
    index_a, index_b = int(a.indices[at]), int(b.indices[other])
    return Flip(id=a.ids[at], index_a=index_a, index_b=index_b, score_a=float(score_a), score_b=float(score_b))
