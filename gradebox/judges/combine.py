"""A score that is made of the scores of other graders of the project."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import fsum, isfinite
from typing import Any

from gradebox.asks.errors import ModelError
from gradebox.asks.other_grader import Grader
from gradebox.judges.bounded import bounded
from gradebox.judges.formula import FUNCTIONS, Formula, Undefined
from gradebox.judges.together import together
from gradebox.score import MOST_VALUES, NotApplicable, Score, is_name
from gradebox.thread import StringThread

_Part = Score | ModelError | NotApplicable


class Combine:
    """The mean of several graders' scores by weights, or what a formula makes of them: `await combined(thread)`.

    All parts are asked at once, each in a sandbox of its own. Where a part fails, the whole fails; else, where a part
    does not apply, the whole does not. The other parts never stand in for it. Make it at module level.
    """

    def __init__(
        self,
        graders: Mapping[str, str] | Sequence[str],
        weights: Mapping[str, float] | None = None,
        formula: str | None = None,
    ) -> None:
        """A combination.

        Args:
            graders: up to 16, by the names that they have here: `{"helpful": "helpful-judge@3", "brief": "brief"}`; or
                a list of keys, each of which is its own name. Without a number it is the version that is newest when
                this grader is made.
            weights: of each name a number of 0 or more. The score is their weighted mean. Without any, all are equal.
            formula: arithmetic on the names, in place of weights: `0.7 * helpful + 0.3 * min(brief, 1)`.

        Raises:
            ValueError: a setting is none; the message says which.
        """
        self._graders = {name: Grader(key) for name, key in _named(graders).items()}
        if formula is not None and weights is not None:
            raise ValueError("formula= and weights= each say how the scores are combined: give one of them")
        self._formula = None if formula is None else _formula(formula, [*self._graders])
        self._weights = _weights(weights, [*self._graders]) if self._formula is None else {}

    async def __call__(self, thread: StringThread) -> Score:
        """The score of a thread, with those of its parts in `values` and all that they say in `details`.

        Raises:
            ModelError: a part has no score, or the formula has no value for these scores; of kind `failed`.
            NotApplicable: a part says that it does not apply, and no part failed.
        """
        calls = [partial(_asked, grader, thread) for grader in self._graders.values()]
        parts = dict(zip(self._graders, await together(calls), strict=True))
        details = _details({name: self._told(name, part) for name, part in parts.items()})
        failures = {name: part for name, part in parts.items() if isinstance(part, ModelError)}
        if failures:
            raise _failure(failures, details)
        for name, part in parts.items():
            if isinstance(part, NotApplicable):
                raise NotApplicable(f"{name}: {part.reason}" if part.reason else name, details)
        scores = {name: float(part) for name, part in parts.items() if isinstance(part, Score)}
        try:
            value = self._combined(scores)
        except Undefined as error:
            raise ModelError("failed", str(error), details=details) from None
        return Score(value, values=scores, details=details)

    def _combined(self, scores: Mapping[str, float]) -> float:
        if self._formula is not None:
            return self._formula.value(scores)
        value = fsum(self._weights[name] * score for name, score in scores.items())
        if not isfinite(value):
            raise Undefined(f"the weighted mean is {value} for these scores, and a score is a finite number")
        return value

    def _told(self, name: str, part: _Part) -> dict[str, Any]:
        told: dict[str, Any] = {"grader": self._graders[name].key}
        if name in self._weights:
            told["weight"] = self._weights[name]
        if isinstance(part, ModelError):
            return {**told, "error": {"kind": part.kind, "message": part.message, "retryable": part.retryable}}
        if isinstance(part, NotApplicable):
            return {**told, "not_applicable": part.reason}
        told["score"] = float(part)
        return told | {name: said for name in ("reason", "details") if (said := getattr(part, name)) is not None}

    def __repr__(self) -> str:
        return f"Combine({', '.join(self._graders)})"


async def _asked(grader: Grader, thread: StringThread) -> _Part:
    try:
        return await grader(thread)
    except (ModelError, NotApplicable) as why:
        return why


def _failure(failures: Mapping[str, ModelError], details: dict[str, Any]) -> ModelError:
    """Another try helps only where it may help every part that failed."""
    said = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
    retryable = all(error.retryable for error in failures.values())
    final = next((error for error in failures.values() if not error.retryable), next(iter(failures.values())))
    message = f"{len(failures)} of the parts have no score, so the whole has none: {said}"
    return ModelError(final.kind, message, retryable, final.reply, details)


def _details(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the parts say, without their own details where these do not fit in."""
    try:
        return bounded({"parts": parts})
    except ValueError:
        shorter = {name: {key: told[key] for key in told if key != "details"} for name, told in parts.items()}
        return bounded({"parts": shorter})


def _named(graders: object) -> dict[str, str]:
    if isinstance(graders, Mapping):
        named = dict(graders)
    elif isinstance(graders, list | tuple) and all(isinstance(key, str) for key in graders):
        named = {key.partition("@")[0]: key for key in graders}
        if len(named) < len(graders):
            raise ValueError('graders= lists a grader twice: give names, as {"new": "polite@3", "old": "polite@2"}')
    else:
        raise ValueError(f"graders= takes names and keys of graders, and got {graders!r:.80}")
    if not 0 < len(named) <= MOST_VALUES:
        raise ValueError(f"graders= takes 1 to {MOST_VALUES} graders, and got {len(named)}: combine combinations")
    for name in named:
        if not isinstance(name, str) or not is_name(name):
            raise ValueError(f"graders=: {name!r:.80} is no name: write up to 64 printable characters")
    return named


def _formula(text: object, names: list[str]) -> Formula:
    if not isinstance(text, str):
        raise ValueError(f"formula= is a text, and got {text!r:.80}")
    for name in names:
        if not name.isidentifier() or not name.isascii() or name in FUNCTIONS:
            raise ValueError(
                f"a formula cannot name the grader {name!r}: give it a name of letters, digits and _, which is none of "
                f"{', '.join(FUNCTIONS)}, as {{'a': {name!r}}}"
            )
    return Formula(text, names)


def _weights(weights: object, names: list[str]) -> dict[str, float]:
    """The weights with a sum of 1."""
    if weights is None:
        return dict.fromkeys(names, 1 / len(names))
    if not isinstance(weights, Mapping) or set(weights) != set(names):
        raise ValueError(f"weights= takes one number for each of {', '.join(names)}, and got {weights!r:.120}")
    for name, weight in weights.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < float("inf"):
            raise ValueError(f"weights=: {name!r} is {weight!r:.80}, and a weight is a number of 0 or more")
    total = fsum(weights.values())
    if not 0 < total < float("inf"):
        raise ValueError("weights=: they come to 0, or to more than a number holds: give one that is more than 0")
    return {name: weights[name] / total for name in names}
