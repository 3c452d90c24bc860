"""A score computed from the scores of other graders of the project and of judges."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from math import fsum, inf, isfinite
from typing import Any

from gradebox.asks.errors import ModelError
from gradebox.judges.bounded_details import bounded
from gradebox.judges.combined_part import Judge, Part, PartConfig, read_parts
from gradebox.judges.failures import as_detail, no_score
from gradebox.judges.formula import FUNCTIONS, Formula, Undefined
from gradebox.judges.means import is_number, weighted_mean
from gradebox.judges.setting_checks import check_flags
from gradebox.judges.together import together
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread

_TEXTS = frozenset(("reason", "details", "error", "not_applicable"))

Said = Score | ModelError | NotApplicable
"""The result of a part for a thread."""


class Combine:
    """The weighted mean of several graders' scores, or the value of a formula on them: `await combined(thread)`.

    All parts are asked at once; each grader of the project runs in a separate sandbox. If a part fails, the whole
    fails; otherwise, if a part does not apply, the whole does not apply. The other parts never replace it. Create it at
    module level.

    Attributes:
        parts: the combined parts.
    """

    def __init__(
        self,
        parts: Mapping[str, str | Judge | PartConfig] | Sequence[str],
        normalize: bool = False,
        formula: str | None = None,
    ) -> None:
        """Combine graders and judges into one score.

        Args:
            parts: up to 16 parts by name: each is the key of a grader, `"helpful-judge@3"`, a judge, or a `PartConfig`
                that defines how it counts. Or a list of keys, which are then also the names. Without a number, the
                version is the newest one at the time when this grader is created.
            normalize: whether each part's score is rescaled from the range of its scores to 0 to 1.
            formula: arithmetic on the names, instead of weights: `0.7 * helpful + 0.3 * min(brief, 1)`.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        check_flags(normalize=normalize)
        self.parts = read_parts(parts, normalize)
        has_weights = any(part.weight is not None for part in self.parts)
        if formula is not None and has_weights:
            raise ValueError("formula= and the weights each say how the scores are combined: give one of them")
        self._formula = None if formula is None else _formula(formula, [part.name for part in self.parts])
        self._weights = _weights(self.parts) if self._formula is None else {}

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread, with the scores of the parts in `values` and their full results in `details`.

        Raises:
            ModelError: a part has no score, or the formula has no value for these scores, which is of kind `failed`.
            NotApplicable: a part does not apply, and no part failed.
        """
        results = await together([partial(_asked, part, thread) for part in self.parts])
        return self.result_of({part.name: result for part, result in zip(self.parts, results, strict=True)})

    def result_of(self, results: Mapping[str, Said]) -> Score:
        """Compute the score from the result of each part, by name. Raises the same exceptions as a call."""
        said, values, counted = dict(results), {}, {}
        for part in self.parts:
            if isinstance(one := said[part.name], Score):
                try:
                    counted[part.name] = part.counted(one)
                    values[part.name] = float(one)
                except ModelError as error:
                    said[part.name] = error
        details = _details({part.name: self._reported(part, said[part.name], counted) for part in self.parts})
        if len(counted) < len(self.parts):
            raise _unscored(said, details)
        if unmet := [part.name for part in self.parts if part.required and counted[part.name] < 1]:
            return Score(0.0, f"required, and not met: {', '.join(unmet)}", values, details)
        try:
            value = self._combined(counted)
        except Undefined as error:
            raise ModelError("failed", str(error), details=details) from None
        return Score(value, values=values, details=details)

    def _combined(self, counted: Mapping[str, float]) -> float:
        if self._formula is not None:
            return self._formula.value(counted)
        value = weighted_mean([self._weights[name] for name in counted], [*counted.values()])
        if not isfinite(value):
            raise Undefined(f"the weighted mean is {value} for these scores, and a score is a finite number")
        return value

    def _reported(self, part: Part, said: Said, counted: Mapping[str, float]) -> dict[str, Any]:
        reported: dict[str, Any] = dict(part.label)
        if part.name in self._weights:
            reported["weight"] = self._weights[part.name]
        reported |= {"score": None, "weighted": None}
        if isinstance(said, ModelError):
            return {**reported, "error": as_detail(said)}
        if isinstance(said, NotApplicable):
            return {**reported, "not_applicable": said.reason}
        reported |= {"score": float(said), "counted": counted[part.name]}
        if part.name in self._weights:
            reported["weighted"] = self._weights[part.name] * counted[part.name]
        return reported | {name: each for name in ("reason", "details") if (each := getattr(said, name)) is not None}

    def __repr__(self) -> str:
        return f"Combine({', '.join(part.name for part in self.parts)})"


async def _asked(part: Part, thread: StringThread) -> Said:
    try:
        result = await part.judge(thread)
        if not isinstance(result, bool) and not is_number(result):  # `Score` would read the text "0.7"
            return ModelError("failed", f"it returned {result!r:.80}, and a score is a finite number")
        return result if isinstance(result, Score) else Score(result)
    except (ModelError, NotApplicable) as why:
        return why
    except MemoryError:
        raise
    except Exception as problem:  # noqa: BLE001  # a judge in this source fails only its part, like another grader
        return ModelError("failed", f"{type(problem).__name__}: {problem}")


def _unscored(said: Mapping[str, Said], details: dict[str, Any]) -> ModelError | NotApplicable:
    """Why the whole has no score: a failed part takes precedence over one that does not apply."""
    failures = {name: one for name, one in said.items() if isinstance(one, ModelError)}
    if failures:
        return no_score("parts", failures, details)
    name, why = next((name, one) for name, one in said.items() if isinstance(one, NotApplicable))
    return NotApplicable(f"{name}: {why.reason}" if why.reason else name, details)


def _details(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The results of the parts, without the parts' own details if these do not fit."""
    if _TEXTS.isdisjoint(chain.from_iterable(parts.values())):  # names and numbers alone always fit
        return {"parts": parts}
    try:
        return bounded({"parts": parts})
    except ValueError:
        shorter = {
            name: {key: reported[key] for key in reported if key != "details"} for name, reported in parts.items()
        }
        return bounded({"parts": shorter})


def _formula(text: object, names: list[str]) -> Formula:
    if not isinstance(text, str):
        raise ValueError(f"formula= is a text, and got {text!r:.80}")
    for name in names:
        if not name.isidentifier() or not name.isascii() or name in FUNCTIONS:
            raise ValueError(
                f"a formula cannot name the grader {name!r}: give it a name of letters, digits and _, which is none of "
                f"{', '.join(FUNCTIONS)}, as {{'a': {name!r}}}"
            )
    formula = Formula(text, names)
    if formula.is_constant:
        raise ValueError(f"formula= names no part, so every thread would score the same: {text!r:.80}")
    return formula


def _weights(parts: Sequence[Part]) -> dict[str, float]:
    """The weights, normalised to a sum of 1."""
    lacking = [part.name for part in parts if part.weight is None]
    if len(lacking) == len(parts):
        return dict.fromkeys(lacking, 1 / len(parts))
    if lacking:
        raise ValueError(f"parts=: {lacking[0]!r} has no weight, and others have: give each one, or none")
    weights = {part.name: part.weight or 0.0 for part in parts}
    try:
        total = fsum(weights.values())
    except OverflowError:
        total = inf
    if not 0 < total < inf:
        raise ValueError("parts=: the weights come to 0, or to more than a number holds: give one that is more than 0")
    return {name: weight / total for name, weight in weights.items()}
