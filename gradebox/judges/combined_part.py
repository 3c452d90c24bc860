"""A part of a combination: a grader or a judge, and the way its score counts."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from math import isfinite
from typing import Any, NamedTuple, NotRequired, TypedDict

from gradebox.asks.errors import ModelError
from gradebox.asks.other_grader import Grader
from gradebox.judges.criterion import Criterion
from gradebox.judges.kind_source import arguments_of, class_of
from gradebox.judges.means import is_above, is_number
from gradebox.score import MOST_VALUES, Score, is_name
from gradebox.thread import StringThread

Judge = Callable[[StringThread], Awaitable[float]]

_NO_PART = ("combine", "pairwise_judge")
_OTHER_RANGE = ("external", "judge")  # kinds whose scores may be any numbers, or are those of a thread's criterion


class PartConfig(TypedDict):
    """The configuration of a part.

    Attributes:
        grader: the key of a grader of the project; with a number, `polite@3`, one of its versions.
        kind: instead of a grader, a kind of grader, such as `judge`, with its `config`.
        config: the settings of the `kind`.
        judge: instead of both, an object such as `DirectJudge(…)`; possible only in a source.
        weight: its weight relative to the others' weights; all weights are equal if no part has one.
        target_option: it counts 1 if `option` in its details is this option, else 0.
        score_threshold: it counts 1 if its score is above this threshold, else 0.
        required: whether the whole scores 0 if this part counts less than 1.
        range: the lowest and highest possible score, for normalising. Not needed for judges of a kind.
    """

    grader: NotRequired[str]
    kind: NotRequired[str]
    config: NotRequired[Mapping[str, Any]]
    judge: NotRequired[Judge]
    weight: NotRequired[float]
    target_option: NotRequired[str]
    score_threshold: NotRequired[float]
    required: NotRequired[bool]
    range: NotRequired[Sequence[float]]


class Part(NamedTuple):
    """A parsed part. `bounds` are None if its scores are not normalised."""

    name: str
    label: dict[str, str]
    judge: Judge
    weight: float | None
    target_option: str | None
    score_threshold: float | None
    required: bool
    bounds: tuple[float, float] | None

    def counted(self, score: Score) -> float:
        """Return the number that the part's score counts.

        Raises:
            ModelError: its details have no option, though `target_option` needs one, or its score is outside its
                bounds.
        """
        if self.target_option is not None:
            option = (score.details or {}).get("option")
            if not isinstance(option, str):
                raise ModelError("failed", f"{self.name} says no option in its details, and target_option= needs one")
            return float(option == self.target_option)
        value = float(score)
        if self.bounds is not None:
            low, high = self.bounds
            if not low <= value <= high:
                raise ModelError("failed", f"{self.name} scored {value:g}, which is not between {low:g} and {high:g}")
            value = (value - low) / (high - low)
        return value if self.score_threshold is None else float(is_above(value, self.score_threshold))


def as_config(parts: Mapping[str, Any] | Sequence[str]) -> dict[str, Any] | list[str]:
    """Convert parts to JSON types."""
    if not isinstance(parts, Mapping):
        return list(parts)
    return {name: _as_json(one) for name, one in parts.items()}


def _as_json(one: Any) -> Any:
    if not isinstance(one, Mapping):
        return one
    if "judge" in one:
        raise ValueError("a part is a judge that was made here: give its kind and config, or write a function grader")
    config = one.get("config")
    if isinstance(config, Mapping) and isinstance(config.get("criterion"), Criterion):
        return {**one, "config": {**config, "criterion": config["criterion"].as_config()}}
    return dict(one)


def read_parts(parts: object, normalize: bool) -> list[Part]:
    """Parse parts.

    Raises:
        ValueError: they are invalid; the message explains what is wrong.
    """
    if isinstance(parts, Mapping):
        named: dict[Any, Any] = dict(parts)
    elif isinstance(parts, list | tuple) and all(isinstance(key, str) for key in parts):
        named = {key.partition("@")[0]: key for key in parts}
        if len(named) < len(parts):
            raise ValueError('parts= lists a grader twice: give names, as {"new": "polite@3", "old": "polite@2"}')
    else:
        raise ValueError(f"parts= takes names and keys of graders, and got {parts!r:.80}")
    if not 0 < len(named) <= MOST_VALUES:
        raise ValueError(f"parts= takes 1 to {MOST_VALUES} parts, and got {len(named)}: combine combinations")
    return [_read(name, one, normalize) for name, one in named.items()]


def _read(name: object, one: Any, normalize: bool) -> Part:
    if not isinstance(name, str) or not is_name(name):
        raise ValueError(f"parts=: {name!r:.80} is no name: write up to 64 printable characters")
    where = f"parts[{name!r}]"
    given: dict[str, Any] = dict(one) if isinstance(one, Mapping) else {_member(one, where): one}
    if unknown := sorted(set(map(str, given)) - set(PartConfig.__annotations__)):
        known = ", ".join(PartConfig.__annotations__)
        raise ValueError(f"{where} has the member {unknown[0]!r:.80}, and a part takes {known}")
    if sum(member in given for member in ("grader", "kind", "judge")) != 1:
        raise ValueError(f"{where} takes one of grader, kind with config, and judge")
    target, threshold, required = given.get("target_option"), given.get("score_threshold"), given.get("required", False)
    if target is not None and (threshold is not None or not isinstance(target, str)):
        raise ValueError(f"{where}: target_option= is the name of an option, and stands without score_threshold=")
    if threshold is not None and not is_number(threshold):
        raise ValueError(f"{where}: score_threshold= is a number, and not {threshold!r:.80}")
    if not isinstance(required, bool):
        raise ValueError(f"{where}: required= is true or false, and not {required!r:.80}")
    weight = given.get("weight")
    if weight is not None and not (is_number(weight) and weight >= 0):
        raise ValueError(f"{where}: weight= is a number of 0 or more, and not {weight!r:.80}")
    judge = _judge(given, where)
    bounds = _bounds(given, judge, where) if normalize and target is None else None
    _check_reach(given, judge, normalize, where)
    return Part(name, _label(given), judge, weight, target, threshold, required, bounds)


def _member(one: object, where: str) -> str:
    if isinstance(one, str):
        return "grader"
    if callable(one):
        return "judge"
    raise ValueError(f"{where} is the key of a grader or an object with one, and not {one!r:.80}")


def _label(given: Mapping[str, Any]) -> dict[str, str]:
    if "judge" in given:
        return {"judge": repr(given["judge"])[:200]}
    return {"grader": given["grader"]} if "grader" in given else {"kind": given["kind"]}


def _judge(given: Mapping[str, Any], where: str) -> Judge:
    if "grader" in given:
        return Grader(given["grader"])
    if "judge" in given:
        if not callable(given["judge"]):
            raise ValueError(f"{where}: judge= is a judge such as DirectJudge(…), and not {given['judge']!r:.80}")
        judge: Judge = given["judge"]
        return judge
    kind, config = given["kind"], given.get("config", {})
    if kind in _NO_PART:
        raise ValueError(f"{where}: a {kind} is no part by itself: create it as a grader, and name that")
    if not isinstance(config, Mapping):
        raise ValueError(f"{where}: config= is an object, and not {config!r:.80}")
    try:
        settings = arguments_of(kind, config)
        module, name = class_of(kind)
        made: Judge = getattr(import_module(module), name)(**settings)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from None
    return made


def _check_reach(given: Mapping[str, Any], judge: Judge, normalize: bool, where: str) -> None:
    """Raises ValueError if the part would count 0 for every thread, as far as its scores are known."""
    target, threshold = given.get("target_option"), given.get("score_threshold")
    if target is not None and (scores := _scores_of(judge)) is not None and target not in scores:
        raise ValueError(f"{where}: target_option= is {target!r:.80}, and the options are {_listed(scores)}")
    if threshold is None:
        return
    known = (0.0, 1.0) if normalize else _range_of(given.get("kind"), judge)
    if known is not None and not is_above(known[1], threshold):
        raise ValueError(
            f"{where}: score_threshold= {threshold} can never be passed, as no score is above {known[1]:g}: give one "
            "below it"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))[:500]


def _bounds(given: Mapping[str, Any], judge: Judge, where: str) -> tuple[float, float]:
    """The lowest and the highest score of a part."""
    kind, said = given.get("kind"), given.get("range")
    if said is None and kind is not None:
        said = _range_of(kind, judge)
    if said is None:
        raise ValueError(f"{where}: its scores cannot be normalised without their range: add range=[lowest, highest]")
    if not isinstance(said, list | tuple) or len(said) != 2 or not all(map(is_number, said)) or said[0] >= said[1]:
        raise ValueError(f"{where}: range= is two numbers, the lowest first, and not {said!r:.80}")
    if not isfinite(float(said[1]) - float(said[0])):
        raise ValueError(
            f"{where}: its scores cannot be normalised, because {said[0]:g} to {said[1]:g} is wider than a number "
            "holds: give a narrower range"
        )
    return float(said[0]), float(said[1])


def _range_of(kind: str | None, judge: Judge) -> tuple[float, float] | None:
    """The range of a judge's scores: 0 to 1 for all kinds but those whose options define it; None if it is unknown."""
    if (scores := _scores_of(judge)) is not None:
        return min(scores.values()), max(scores.values())
    if kind == "multi_criteria":
        from gradebox.judges.multi_criteria import MultiCriteria  # imported here: few combinations have one

        assert isinstance(judge, MultiCriteria)
        return judge.bounds
    return None if kind is None or kind in _OTHER_RANGE else (0.0, 1.0)


def _scores_of(judge: Judge) -> dict[str, float] | None:
    """The score of each option of a direct judge; None for any other, or if each thread has its own criterion."""
    if isinstance(judge, Grader):
        return None
    from gradebox.judges.direct_judge import DirectJudge  # imported here: most combinations are of graders alone

    return judge.scores if isinstance(judge, DirectJudge) else None
