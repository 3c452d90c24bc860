"""A judge with several weighted criteria."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import fsum, isfinite
from typing import Any, NamedTuple

from gradebox.asks.asking import MOST_ASKS
from gradebox.asks.errors import ModelError
from gradebox.judges.bounded_details import bounded
from gradebox.judges.criterion import Criterion
from gradebox.judges.direct_judge import DirectJudge, PositionalBias
from gradebox.judges.failures import as_detail, no_score
from gradebox.judges.means import is_above, is_number, weighted_mean
from gradebox.judges.read_criterion import read
from gradebox.judges.setting_checks import check_flags
from gradebox.judges.together import together
from gradebox.score import Score
from gradebox.thread import StringThread

_NEAR = 1e-9
_DIGITS = 9


class CriterionItem(NamedTuple):
    """A criterion, and the way it counts.

    Attributes:
        criterion: a `Criterion`, its dict, the name of a predefined one, or a text (Yes 1.0, No 0.0).
        weight: from 0 to 1; the weights of all items sum to 1. If no item has one, all are equal.
        target_option: the item scores 1 if this option is chosen, else 0.
        score_threshold: the item scores 1 if the option's score is above it, else 0. It applies to the normalised score
            if scores are normalised.
        required: whether the whole scores 0 if this item scores less than 1, whatever its weight.
    """

    criterion: str | Mapping[str, Any] | Criterion
    weight: float | None = None
    target_option: str | None = None
    score_threshold: float | None = None
    required: bool = False

    def as_config(self) -> dict[str, Any]:
        """Convert the item to JSON types."""
        criterion = self.criterion.as_config() if isinstance(self.criterion, Criterion) else self.criterion
        return {**self._asdict(), "criterion": criterion}


class _Item(NamedTuple):
    name: str
    judge: DirectJudge
    weight: float
    lowest: float
    highest: float
    target_option: str | None
    score_threshold: float | None
    required: bool

    @property
    def strategy(self) -> str:
        if self.target_option is not None:
            return "target_option"
        return "none" if self.score_threshold is None else "score_threshold"


class MultiCriteria:
    """The weighted sum of the scores of several criteria: `await judge(thread)`. Create it at module level.

    Each criterion is judged by a `DirectJudge`. If one has no score, the whole has none.
    """

    def __init__(
        self,
        criteria: Sequence[str | Mapping[str, Any] | Criterion | CriterionItem],
        model: str,
        normalize_scores: bool = True,
        **settings: Any,
    ) -> None:
        """Make a judge.

        Args:
            criteria: `CriterionItem`s, their dicts, or plain criteria, which then have equal weights.
            model: the model's key in the project.
            normalize_scores: whether an option's score is rescaled so that the criterion's lowest score is 0 and its
                highest is 1.
            settings: settings of each `DirectJudge`, such as `self_consistency` or `check_positional_bias`.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        check_flags(normalize_scores=normalize_scores)
        self._normalizes = normalize_scores
        self._items = _items(criteria, model, normalize_scores, settings)
        asks = sum(item.judge.most_asks for item in self._items)
        if asks > MOST_ASKS:
            raise ValueError(f"these criteria ask {asks} times for one completion, and may {MOST_ASKS}: judge by fewer")

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest score."""
        bounds = [self._bounds_of(item) for item in self._items]
        lowest, highest = (self._whole(scores) for scores in zip(*bounds, strict=True))
        if any(item.required for item in self._items):  # the whole may score 0 instead
            return min(lowest, 0.0), max(highest, 0.0)
        return lowest, highest

    def _bounds_of(self, item: _Item) -> tuple[float, float]:
        is_own = item.strategy == "none" and not self._normalizes
        return (item.lowest, item.highest) if is_own else (0.0, 1.0)

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread, with all decisions in `details`.

        Raises:
            ModelError: a criterion has no score; `details` holds the others.
            ValueError: the thread has nothing to judge.
        """
        results = await together([partial(_judged, item.judge, thread) for item in self._items])
        judged = dict(zip([item.name for item in self._items], results, strict=True))
        reported = {item.name: self._reported(item, judged[item.name]) for item in self._items}
        details = _details({"criteria": reported, "normalize_scores": self._normalizes})
        failures = {name: result for name, result in judged.items() if not isinstance(result, Score)}
        if failures:
            raise no_score("criteria", failures, details)
        scores = [reported[item.name]["score"] for item in self._items]
        unmet = [item.name for item, score in zip(self._items, scores, strict=True) if item.required and score < 1]
        value = 0.0 if unmet else self._whole(scores)
        reason = f"required, and not met: {', '.join(unmet)}" if unmet else None
        return Score(value, reason, details=details)

    def _whole(self, scores: Sequence[float]) -> float:
        return round(weighted_mean([item.weight for item in self._items], scores), _DIGITS)

    def _reported(self, item: _Item, result: Score | ModelError) -> dict[str, Any]:
        reported: dict[str, Any] = {"weight": item.weight, "strategy": item.strategy, "required": item.required}
        if isinstance(result, ModelError):
            kind = "positional_bias" if isinstance(result, PositionalBias) else result.kind
            return reported | {"error": {**as_detail(result), "kind": kind}}
        score = self._item_score(item, result)
        reported |= {"score": score, "weighted_score": item.weight * score}
        return reported | {"result": {"score": float(result), "reason": result.reason, "details": result.details}}

    def _item_score(self, item: _Item, result: Score) -> float:
        assert result.details is not None
        if item.target_option is not None:
            return float(result.details["option"] == item.target_option)
        score = float(result)
        if self._normalizes:
            score = (score - item.lowest) / (item.highest - item.lowest)
        return score if item.score_threshold is None else float(is_above(score, item.score_threshold))

    def __repr__(self) -> str:
        return f"MultiCriteria({', '.join(item.name for item in self._items)})"


async def _judged(judge: DirectJudge, thread: StringThread) -> Score | ModelError:
    try:
        return await judge(thread)
    except ModelError as why:
        return why


def _details(details: dict[str, Any]) -> dict[str, Any]:
    """Bound the details; if they do not fit, reduce each criterion's details to the option."""
    try:
        return bounded(details)
    except ValueError:
        for one in details["criteria"].values():
            if "result" in one:
                one["result"] = {"score": one["result"]["score"], "option": one["result"]["details"]["option"]}
        return bounded(details)


def _items(criteria: object, model: str, normalizes: bool, settings: Mapping[str, Any]) -> list[_Item]:
    if not isinstance(criteria, list | tuple) or isinstance(criteria, Criterion | CriterionItem) or not criteria:
        raise ValueError(f"criteria= is a list of criteria or of items, and got {criteria!r:.80}")
    given = [_item(one, number) for number, one in enumerate(criteria)]
    found = [_aimed(read(item.criterion), item.target_option) for item in given]
    names = [_name(*pair, number) for number, pair in enumerate(zip(given, found, strict=True), 1)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two criteria are called {name!r:.80}: give them different names")
    weights = _weights([item.weight for item in given])
    return [
        _checked(item, criterion, name, weight, DirectJudge(criterion, model, **settings), normalizes)
        for item, criterion, name, weight in zip(given, found, names, weights, strict=True)
    ]


def _aimed(criterion: Criterion, target: str | None) -> Criterion:
    """Gives options without a score 1 for the target and 0 otherwise: with a target option they need none."""
    if target is None:
        return criterion
    options = [
        option if option.worth() is not None else option._replace(score=float(option.name == target))
        for option in criterion.options
    ]
    return criterion._replace(options=tuple(options))


def _item(one: Any, number: int) -> CriterionItem:
    if isinstance(one, CriterionItem):
        return one
    if isinstance(one, Mapping) and "criterion" in one:
        if unknown := sorted(set(map(str, one)) - set(CriterionItem._fields)):
            known = ", ".join(CriterionItem._fields)
            raise ValueError(f"criteria[{number}] has the member {unknown[0]!r:.80}, and an item takes {known}")
        return CriterionItem(**one)
    return CriterionItem(one)


def _name(item: CriterionItem, criterion: Criterion, number: int) -> str:
    is_predefined = isinstance(item.criterion, str) and item.criterion.strip() != criterion.description.strip()
    return criterion.name or (str(item.criterion).strip() if is_predefined else f"criteria_{number}")


def _weights(weights: list[float | None]) -> list[float]:
    given = [weight for weight in weights if weight is not None]
    if not given:
        return [1 / len(weights)] * len(weights)
    if len(given) < len(weights):
        raise ValueError("some criteria have a weight, and some have none: give all of them one, or none")
    for weight in given:
        if not is_number(weight) or not 0 <= weight <= 1:
            raise ValueError(f"a weight is a number from 0 to 1, and not {weight!r:.80}")
    if abs(fsum(given) - 1) > _NEAR:
        raise ValueError(f"the weights come to {fsum(given):.9g}: they are to come to 1")
    return [float(weight) for weight in given]


def _checked(
    item: CriterionItem, criterion: Criterion, name: str, weight: float, judge: DirectJudge, normalizes: bool
) -> _Item:
    """Raises ValueError for an item that is invalid, or that would score the same for every thread."""
    scores, target, threshold = criterion.scores(), item.target_option, item.score_threshold
    lowest, highest = min(scores.values()), max(scores.values())
    if not isinstance(item.required, bool):
        raise ValueError(f"{name!r}: required is true or false, and not {item.required!r:.80}")
    if target is not None and threshold is not None:
        raise ValueError(f"{name!r} has a target_option and a score_threshold: give one of them")
    if target is not None and target not in scores:
        raise ValueError(f"{name!r}: target_option {target!r:.80} is none of {', '.join(map(repr, scores))}")
    if threshold is not None and not is_number(threshold):
        raise ValueError(f"{name!r}: score_threshold is a number, and not {threshold!r:.80}")
    if target is None and normalizes and lowest == highest:
        raise ValueError(f"{name!r}: all options score {lowest}, so they cannot be normalised: normalize_scores=False")
    if target is None and normalizes and not isfinite(highest - lowest):
        raise ValueError(
            f"{name!r}: its scores cannot be normalised, because {lowest:g} to {highest:g} is wider than a number "
            "holds: give smaller scores, or normalize_scores=False"
        )
    if threshold is not None and normalizes and not is_above(1.0, threshold):
        raise ValueError(
            f"{name!r}: score_threshold {threshold} can never be passed, as normalised scores go from 0 to 1: give one "
            "below 1, or normalize_scores=False"
        )
    if threshold is not None and not normalizes and not is_above(highest, threshold):
        raise ValueError(
            f"{name!r}: score_threshold {threshold} can never be passed, as no option scores above {highest:g}: "
            "give one below it"
        )
    return _Item(name, judge, weight, lowest, highest, target, threshold, item.required)
