"""What a run of outcomes comes to: small, and two of them merge into one."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from gradebox.outcome import Outcome
from storage.connection import text


class Tally(msgspec.Struct):
    """Counts and moments of one grader's outcomes. `m2` is the sum of squared distances from the mean."""

    count: int = 0
    scored: int = 0
    mean: float = 0.0
    m2: float = 0.0
    minimum: float = 0.0
    maximum: float = 0.0
    run_ms: float = 0.0
    errors: dict[str, int] = {}
    values: dict[str, int] = {}
    """How often each score was given, by the score rounded to three significant digits."""


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Counts outcomes of one grader."""
    scores = [outcome.score for outcome in outcomes if outcome.score is not None]
    counted = Tally(count=len(outcomes), scored=len(scores), run_ms=sum([outcome.run_ms for outcome in outcomes]))
    if len(scores) < len(outcomes):
        counted.errors = Counter([outcome.error.kind for outcome in outcomes if outcome.error is not None])
    if scores:
        # Most rewards have few values, and each needs to be looked at once.
        values = Counter(scores)
        counted.mean = mean = sum([score * count for score, count in values.items()]) / len(scores)
        # a product gives inf, ** would raise
        counted.m2 = sum([(score - mean) * (score - mean) * count for score, count in values.items()])
        counted.minimum, counted.maximum = min(values), max(values)
        counted.values = _rounded(values)
    return counted


def _rounded(values: Mapping[float, int]) -> dict[str, int]:
    rounded: Counter[str] = Counter()
    for score, count in values.items():
        rounded[f"{score + 0.0:.3g}"] += count  # + 0.0 makes -0.0 a 0.0
    return rounded


def arguments(counted: Tally) -> list[str | int | float]:
    """A tally as the script `complete` takes it."""
    flat: list[str | int | float] = [counted.count, counted.scored]
    flat += [repr(value) for value in (counted.mean, counted.m2, counted.minimum, counted.maximum, counted.run_ms)]
    flat.append(len(counted.errors))
    for counts in (counted.errors, counted.values):
        for name, count in counts.items():
            flat += [name, count]
    return flat


def from_redis(stats: Mapping[bytes | str, bytes | str], values: Mapping[bytes | str, bytes | str]) -> Tally:
    """The tally that the script `complete` has merged so far."""
    fields = {text(name): text(value) for name, value in stats.items()}
    return Tally(
        count=int(fields.get("count", 0)),
        scored=int(fields.get("scored", 0)),
        mean=float(fields.get("mean", 0)),
        m2=float(fields.get("m2", 0)),
        minimum=float(fields.get("minimum", 0)),
        maximum=float(fields.get("maximum", 0)),
        run_ms=float(fields.get("run_ms", 0)),
        errors=error_counts(fields),
        values={text(value): int(count) for value, count in values.items()},
    )


def error_counts(fields: Mapping[str, str]) -> dict[str, int]:
    """The counts by kind of error among the fields of a batch, or of a grader's statistics."""
    return {name.removeprefix("error:"): int(count) for name, count in fields.items() if name.startswith("error:")}
