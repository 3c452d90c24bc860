"""Statistics of a sequence of outcomes: small and mergeable."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

import msgspec

from gradebox.outcome import Outcome, Spent, details_of, sum_of
from storage.statistics.positional_bias import decisions

MOST_VALUES = 5000
"""Number of different scores up to which a tally has each of them."""
JOINED_VALUES = MOST_VALUES // 2
MOST_NAMES = 16
MOST_OPTIONS = 16
OPTION_CHARACTERS = 100
PASS = 1.0
"""The lowest score that passes."""


class Values(msgspec.Struct, array_like=True):
    """Counts and moments of the values of one name."""

    count: int
    mean: float
    minimum: float
    maximum: float


class Tally(msgspec.Struct, array_like=True):
    """Counts and moments of one grader's outcomes. `m2` is the sum of squared distances from the mean."""

    count: int = 0
    scored: int = 0
    mean: float = 0.0
    m2: float = 0.0
    minimum: float = 0.0
    maximum: float = 0.0
    run_ms: float = 0.0
    errors: dict[str, int] = {}
    values: dict[float, int] = {}
    """Number of scores by score. Of more than `MOST_VALUES` different scores, neighbours are joined."""
    unanswered: int = 0
    """Threads that do not end with a turn of the assistant."""
    named: dict[str, Values] = {}
    """Named values that scores carry, for the first `MOST_NAMES` names."""
    left_out: int = 0
    """Number of values with further names."""
    spent: Spent | None = None
    """The total cost of the asks; None if there were none."""
    passed: int | None = None
    """Number of scores that pass; None if there are no scores, or a part is from a release that did not count them."""
    options: dict[str, int] = {}
    """Number of outcomes by the option in their details, for the first `MOST_OPTIONS` options."""
    options_left_out: int = 0
    bias_checked: int = 0
    """Number of decisions of judges that asked in both orders."""
    bias_detected: int = 0
    """Number of these decisions that differ between the orders."""
    groups_differ: bool = False
    """Whether completions within a group have different scores; the scores of the groups may still be equal."""
    retryable: int | None = None
    """Number of retryable errors; None if there are no errors, or a part is from a release that did not count them."""

    @property
    def not_applicable(self) -> int:
        """Outcomes with neither a score nor an error: the grader does not apply to their threads."""
        return self.count - self.scored - sum(self.errors.values())


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """The tally of outcomes of one grader."""
    scores = [outcome.score for outcome in outcomes if outcome.score is not None]
    counted = Tally(count=len(outcomes), scored=len(scores), run_ms=sum([outcome.run_ms for outcome in outcomes]))
    if len(scores) < len(outcomes):
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        counted.errors = Counter([error.kind for error in errors])
        counted.retryable = sum([error.retryable for error in errors]) if errors else None
    if spent := [outcome.spent for outcome in outcomes if outcome.spent is not None]:
        counted.spent = sum_of(spent)
    counted.unanswered = len([outcome for outcome in outcomes if outcome.no_completion])
    columns: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.values is not None:
            for name, value in outcome.values.items():
                columns.setdefault(name, []).append(value)
    _add_named(counted, {name: _values(column) for name, column in columns.items()})
    chosen = [(details_of(outcome) or {}).get("option") for outcome in outcomes if outcome.details is not None]
    _add_options(counted, Counter([option for option in chosen if isinstance(option, str)]))
    bias = [decided for outcome in outcomes if outcome.details for decided in decisions(outcome)]
    counted.bias_checked, counted.bias_detected = len(bias), sum(bias)
    counted.groups_differ = any(_differ(outcome.scores) for outcome in outcomes if outcome.scores is not None)
    if scores:
        # Most rewards have few distinct values, so each is processed once.
        values = Counter(scores)
        counted.mean = mean = sum([score * count for score, count in values.items()]) / len(scores)
        # a product overflows to inf, ** would raise
        counted.m2 = sum([(score - mean) * (score - mean) * count for score, count in values.items()])
        counted.minimum, counted.maximum = min(values), max(values)
        _set_equal(counted)
        counted.passed = sum([count for score, count in values.items() if score >= PASS])
        counted.values = {score + 0.0: count for score, count in values.items()}  # + 0.0 makes -0.0 a 0.0
    return counted


def _values(column: Sequence[float]) -> Values:
    count = len(column)
    mean = sum(column) / count
    if not isfinite(mean):  # the sum of finite numbers may overflow
        mean = sum([value / count for value in column])
    return Values(count, mean, min(column), max(column))


def _differ(scores: Sequence[float | None]) -> bool:
    return len({score for score in scores if score is not None}) > 1


def merged(parts: Iterable[Tally]) -> Tally:
    """Merges tallies of one grader."""
    total = Tally()
    for part in parts:
        total.count += part.count
        total.run_ms += part.run_ms
        if part.errors:
            _add_errors(total, part)
        total.unanswered += part.unanswered
        total.left_out += part.left_out
        if part.spent is not None:
            total.spent = part.spent if total.spent is None else sum_of([total.spent, part.spent])
        _add_named(total, part.named)
        total.options_left_out += part.options_left_out
        total.bias_checked += part.bias_checked
        total.bias_detected += part.bias_detected
        total.groups_differ |= part.groups_differ
        _add_options(total, part.options)
        if part.scored:
            _add_moments(total, part)
            for value, count in part.values.items():
                total.values[value] = total.values.get(value, 0) + count
    if len(total.values) > MOST_VALUES:
        total.values = _joined(total.values)
    return total


def _add_errors(total: Tally, part: Tally) -> None:
    if not total.errors:
        total.retryable = part.retryable
    else:
        total.retryable = _sum_or_none(total.retryable, part.retryable)
    for kind, count in part.errors.items():
        total.errors[kind] = total.errors.get(kind, 0) + count


def _sum_or_none(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _add_moments(total: Tally, part: Tally) -> None:
    """Combines the means and spreads of two parts by Chan's formula, which avoids cancellation."""
    a, n = total.scored, part.scored
    if not a:
        total.mean, total.m2, total.minimum, total.maximum = part.mean, part.m2, part.minimum, part.maximum
        total.passed = part.passed
    else:
        delta, both = part.mean - total.mean, a + n
        total.m2 = part.m2 + total.m2 + delta * delta * a * n / both
        total.mean += delta * n / both
        total.minimum, total.maximum = min(part.minimum, total.minimum), max(part.maximum, total.maximum)
        total.passed = _sum_or_none(total.passed, part.passed)
    total.scored = a + n
    _set_equal(total)


def _set_equal(counted: Tally) -> None:
    """Sets the exact mean and spread of equal scores, which rounding distorts."""
    if counted.minimum == counted.maximum:
        counted.mean, counted.m2 = counted.minimum, 0.0


def _add_named(total: Tally, part: Mapping[str, Values]) -> None:
    for name, values in part.items():
        there = total.named.get(name)
        if there is not None:
            count = there.count + values.count
            there.mean += (values.mean - there.mean) * values.count / count
            there.count = count
            there.minimum, there.maximum = min(there.minimum, values.minimum), max(there.maximum, values.maximum)
        elif len(total.named) < MOST_NAMES:
            total.named[name] = msgspec.structs.replace(values)
        else:
            total.left_out += values.count


def _add_options(total: Tally, part: Mapping[str, int]) -> None:
    for option, count in part.items():
        is_known = option in total.options
        if is_known or (len(total.options) < MOST_OPTIONS and len(option) <= OPTION_CHARACTERS):
            total.options[option] = total.options.get(option, 0) + count
        else:
            total.options_left_out += count


def _joined(values: Mapping[float, int]) -> dict[float, int]:
    """Joins neighbouring values into runs, at most `JOINED_VALUES + 1`, which keeps the tally small.

    A run of several values holds at most 0.08 % of the scores, however they are spread: so much may one join change the
    rank of a quantile. The value in the middle of its scores represents a run.
    """
    most = 2 * sum(values.values()) / JOINED_VALUES  # two adjacent runs hold more than this
    joined: dict[float, int] = {}
    run: list[float] = []
    size = 0
    for value in sorted(values):
        if run and size + values[value] > most:
            joined[_middle(run, values, size)] = size
            run, size = [], 0
        run.append(value)
        size += values[value]
    joined[_middle(run, values, size)] = size
    return joined


def _middle(run: Sequence[float], values: Mapping[float, int], size: int) -> float:
    """The value that has the middle one of the `size` scores of a run."""
    before = 0
    for value in run:
        before += values[value]
        if 2 * before >= size:
            return value
    raise ValueError("the counts of a run are less than its size")


_decoder = msgspec.msgpack.Decoder(Tally)
_encoder = msgspec.msgpack.Encoder()


def pack(counted: Tally) -> bytes:
    """Encodes a tally for storage."""
    return _encoder.encode(counted)


def unpack(kept: bytes) -> Tally:
    """Decodes a tally that `pack` encoded."""
    return _decoder.decode(kept)


def error_counts(fields: Mapping[str, str]) -> dict[str, int]:
    """The number of errors by kind, from the fields of a batch record."""
    return {name.removeprefix("error:"): int(count) for name, count in fields.items() if name.startswith("error:")}
