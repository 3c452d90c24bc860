"""Compares the scores of a grader with labels, and with the lengths of completions."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from api.numbers.bootstrap import interval
from api.numbers.jobs import AgreementJob
from api.numbers.metadata_labels import MetadataLabels
from api.numbers.outcome_column import NO_SCORE, Array, Line, finite, mean_of, why_no_rows
from api.numbers.pair_counts import pair_counts
from api.table.completions import value_of
from gradebox import thread_forms
from gradebox.outcome import Details, OutcomeDecoder
from gradebox.schemas import BiasCount
from gradebox.schemas.agreement import Agreement, Correlation, LengthBias, LengthQuarter
from gradebox.thread_forms import METADATA
from storage.statistics.positional_bias import decisions
from storage.statistics.summary import spent

MOST_VALUES = 20
_QUARTERS = 4


class _Line(Line):
    """The fields of an outcome that are used."""

    details: Details | None = None
    scores: list[float | None] | None = None


_decode = OutcomeDecoder(_Line).decode


class _Rows(NamedTuple):
    """One entry per thread; NaN if there is no value."""

    scores: Array
    labels: Array
    lengths: Array
    position: BiasCount
    of_metadata: MetadataLabels | None


def run(job: AgreementJob, outcomes: Iterable[bytes], threads: Iterable[bytes]) -> Agreement:
    """Compares the grader's scores with the labels."""
    rows = _read(job, outcomes, threads)
    has_score, has_label = ~np.isnan(rows.scores), ~np.isnan(rows.labels)
    both = has_score & has_label
    scores, labels = rows.scores[both], rows.labels[both]
    with np.errstate(all="ignore"):
        differences = scores - labels
    return Agreement(
        batch=job.of.batch,
        grader=job.of.grader,
        label=job.label,
        rows=len(rows.scores),
        scored=len(scores),
        only_grader=int((has_score & ~has_label).sum()),
        only_label=int((has_label & ~has_score).sum()),
        neither=int((~has_score & ~has_label).sum()),
        grader_mean=mean_of(scores),
        label_mean=mean_of(labels),
        difference=mean_of(differences),
        interval=interval(differences, job.resamples),
        spearman=correlation(scores, labels),
        threshold=job.threshold,
        length=_length_bias(rows),
        pair_counts=pair_counts(labels, scores),
        position=rows.position,
        spent=spent(job.of.spent),
        note=None if both.any() else _why_none(job, rows, has_score, has_label),
        **categorical(_decided(labels, job.threshold), _decided(scores, job.threshold), job.resamples),
    )


def _why_none(job: AgreementJob, rows: _Rows, has_score: Array, has_label: Array) -> str:
    """Why no row has a score and a label."""
    if not len(rows.scores):
        return why_no_rows(job.of)
    if rows.of_metadata is not None and not has_label.any():
        return rows.of_metadata.why_none()
    for has, grader in ((has_label, job.label), (has_score, job.of.grader)):
        if not has.any():
            return f"no row has a score of {grader}"
    return f"rows with only a score: {has_score.sum():,}, with only a label: {has_label.sum():,}"


def _decided(scores: Array, threshold: float | None) -> Array:
    return scores if threshold is None else (scores >= threshold).astype(np.float64)


def categorical(labels: Array, scores: Array, resamples: int) -> dict[str, Any]:
    """Statistics by value; empty if there are more than MOST_VALUES values, or no rows."""
    values = np.unique(np.concatenate([labels, scores]))
    if not 0 < len(values) <= MOST_VALUES:
        none = ("accuracy", "accuracy_interval", "kappa", "precision", "recall")
        empty = ("values", "confusion", "grader_rates", "label_rates")
        return dict.fromkeys(none) | {name: [] for name in empty}
    confusion = np.zeros((len(values), len(values)), dtype=np.int64)
    np.add.at(confusion, (np.searchsorted(values, labels), np.searchsorted(values, scores)), 1)
    count = len(labels)
    label_rates, grader_rates = confusion.sum(axis=1) / count, confusion.sum(axis=0) / count
    accuracy, chance = confusion.trace() / count, float(label_rates @ grader_rates)
    is_one_value = bool(((label_rates == 1) & (grader_rates == 1)).any())
    precision = recall = None
    if set(values) <= {0.0, 1.0}:
        one = values == 1.0
        hits = int(confusion[one][:, one].sum())
        precision = _share(hits, int(confusion[:, one].sum()))
        recall = _share(hits, int(confusion[one].sum()))
    return {
        "values": values.tolist(),
        "confusion": confusion.tolist(),
        "grader_rates": grader_rates.tolist(),
        "label_rates": label_rates.tolist(),
        "accuracy": float(accuracy),
        "accuracy_interval": interval((labels == scores).astype(np.float64), resamples),
        "kappa": None if is_one_value else float((accuracy - chance) / (1 - chance)),
        "precision": precision,
        "recall": recall,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def correlation(one: Array, other: Array) -> Correlation:
    """Spearman's rank correlation, by SciPy. None if there are fewer than three pairs, or one side is constant."""
    if len(one) < 3 or one.min() == one.max() or other.min() == other.max():
        return Correlation(count=len(one), value=None, p_value=None)
    found = spearmanr(one, other)
    return Correlation(count=len(one), value=finite(found.statistic), p_value=finite(found.pvalue))


def _length_bias(rows: _Rows) -> LengthBias:
    scored = ~np.isnan(rows.scores) & ~np.isnan(rows.lengths)
    labelled = scored & ~np.isnan(rows.labels)
    with np.errstate(all="ignore"):
        excess = rows.scores[labelled] - rows.labels[labelled]
    return LengthBias(
        score=correlation(rows.scores[scored], rows.lengths[scored]),
        excess=correlation(excess, rows.lengths[labelled]),
        quarters=list(_quarters(rows.scores[scored], rows.lengths[scored])),
    )


def _quarters(scores: Array, lengths: Array) -> Iterator[LengthQuarter]:
    order = np.argsort(lengths, kind="stable")
    for part in np.array_split(order, _QUARTERS):
        if len(part):
            of = lengths[part]
            yield LengthQuarter(shortest=int(of[0]), longest=int(of[-1]), count=len(part), mean=mean_of(scores[part]))


def _read(job: AgreementJob, outcomes: Iterable[bytes], threads: Iterable[bytes]) -> _Rows:
    scores: dict[int, float] = {}
    labels: dict[int, float] = {}
    rows: list[int] = []  # of a cancelled batch, some threads have no outcomes
    checked = detected = 0
    for line in outcomes:
        outcome = _decode(line)
        if outcome.index not in rows[-1:]:
            rows.append(outcome.index)
        if outcome.grader == job.of.grader:
            scores[outcome.index] = NO_SCORE if outcome.score is None else outcome.score
            bias = [*decisions(outcome)] if outcome.details else []
            checked += len(bias)
            detected += sum(bias)
        elif outcome.grader == job.label and outcome.score is not None:
            labels[outcome.index] = outcome.score
    of_metadata = MetadataLabels(job.label) if job.label.startswith(METADATA) else None
    lengths, read = _of_threads(threads, of_metadata)
    return _Rows(
        np.array([scores.get(row, NO_SCORE) for row in rows], dtype=np.float64),
        np.array([read[row] if read else labels.get(row, NO_SCORE) for row in rows], dtype=np.float64),
        np.array([lengths[row] for row in rows], dtype=np.float64),
        BiasCount(checked=checked, detected=detected),
        of_metadata,
    )


def _of_threads(threads: Iterable[bytes], of_metadata: MetadataLabels | None) -> "tuple[array[float], array[float]]":
    """The length of each completion and, if the labels are metadata, each label."""
    lengths, labels = array("d"), array("d")
    for line in threads:
        length, metadata = _looked_at(line)
        lengths.append(length)
        if of_metadata is not None:
            labels.append(of_metadata.read(metadata))
    return lengths, labels


def _looked_at(line: bytes) -> tuple[float, dict[str, Any]]:
    """The length of the completion, or NaN if there is none, and the metadata. An invalid thread has neither."""
    try:
        turns, metadata, _ = thread_forms.read(value_of(line), keep_unknown=True)
    except (ValueError, RecursionError):  # it results in an outcome of kind `bad_input`
        return NO_SCORE, {}
    if not turns or turns[-1][0] != "assistant":
        return NO_SCORE, metadata
    return float(len(turns[-1][1])), metadata
