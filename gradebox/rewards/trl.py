"""TRL: `reward_func(prompts=…, completions=…, completion_ids=…, **columns) -> list[float | None]`.

`GRPOTrainer._calculate_rewards` of trl 1.16 calls it this way: each column of the dataset is a list with an entry for
each completion, and objects of the trainer are further arguments.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from numbers import Real
from typing import Any, Literal, TypeAlias

from gradebox.errors import ScoreMissing
from gradebox.outcome import Outcome
from gradebox.rewards import groups
from gradebox.rewards.plain import members, messages
from gradebox.warn import warn

Missing: TypeAlias = Literal["raise", "none"] | float
"""The result for a completion without a score: an exception, the reward None, or this number."""

_OWN = frozenset(("completion_ids", "environments"))  # arguments of the trainer, not columns of the dataset
# From this version on, GRPOTrainer and RLOOTrainer leave out a completion if every reward function returns None for it.
# In all other cases they sum a completion's rewards by `nansum`, which counts None as 0.0 (read in trl 1.5, 1.6 and
# 1.16, observed in 0.24 and 1.16), and so do the trainers of `trl.experimental`.
_LEAVES_OUT = (1, 6)
_LEAVING_OUT = frozenset(("GRPOTrainer", "RLOOTrainer"))
# From this version on, processes may log different metric names. In earlier versions they then deadlock.
_OWN_METRICS = (1, 14)

_Score: TypeAlias = Callable[[list[dict[str, Any]]], list[Outcome]]

_log = logging.getLogger("gradebox")


def _leaves_out(log_metric: Callable[[str, float], object] | None) -> bool:
    """Return whether the trainer that `log_metric` is bound to is known to leave out a completion if every reward
    function returns None for it.
    """
    classes = type(getattr(log_metric, "__self__", None)).__mro__
    is_known = any(one.__name__ in _LEAVING_OUT and one.__module__.startswith("trl.trainer") for one in classes)
    is_experimental = any(one.__module__.startswith("trl.experimental") for one in classes)
    return (_installed() or ()) >= _LEAVES_OUT and is_known and not is_experimental


def _is_alone(log_metric: Callable[[str, float], object] | None) -> bool:
    return len(getattr(getattr(log_metric, "__self__", None), "reward_funcs", ())) == 1


def _installed() -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in version("trl").split(".")[:2] if part.isdecimal())
    except PackageNotFoundError:
        return None


def threads(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    columns: Mapping[str, Any],
    only: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """Make a thread for each completion, with the dataset's columns, or those in `only`, as `members` has them.

    Raises:
        ValueError: a prompt or completion is missing; JSON cannot hold a value, with its row and column in the message;
            or a column in `only` is missing or has another length than the completions.
    """
    number = len(completions)
    if (given := 0 if prompts is None else len(prompts)) != number:
        raise ValueError(f"{given} prompts came with {number} completions: pass the prompt of each completion")
    lengths = {name: _length(row) for name, row in columns.items() if name not in _OWN}
    rows = {name: columns[name] for name, length in lengths.items() if length == number}
    for name, length in lengths.items():
        if only is None and isinstance(columns[name], list) and length != number:
            warn(f"column {name!r} is not sent: it has {length} values for {number} completions")
    for name in only or ():
        if name not in rows:
            had = f"has not {number} values" if name in columns else "is missing"
            raise ValueError(f"column {name!r} {had}: the trainer passes {', '.join(sorted(rows)) or 'no columns'}")
    return [
        {
            "prompt": _turns(prompts[index], f"row {index}, prompt"),
            "completion": _turns(completions[index], f"row {index}, completion"),
            **members({name: row[index] for name, row in rows.items()}, only, index),
        }
        for index in range(number)
    ]


def _length(column: Any) -> int | None:
    """The number of rows of a column: a list, tuple, array or tensor. None for other arguments of the trainer."""
    if isinstance(column, list | tuple):
        return len(column)
    shape = getattr(column, "shape", ())
    return int(shape[0]) if isinstance(shape, tuple) and shape else None


class RewardPolicy:
    """Converts outcomes to rewards. Logs the first error of each kind.

    Args:
        key: the key of the grader, or the name of a reward of several graders.
        missing: the result for a completion without a score; None for an exception, unless the trainer leaves out None.
        parts: the keys of the graders, if there are several.
    """

    def __init__(self, key: str, missing: Missing | None, parts: Sequence[str] = ()) -> None:
        self._key = key
        self._parts = parts
        self._missing: Missing | None = missing if missing in (None, "raise", "none") else _number(missing)
        self._reported: set[str] = set()

    def rewards(self, outcomes: Sequence[Outcome], trainer: Mapping[str, Any]) -> list[float | None]:
        """Return a reward for each outcome.

        If the grader does not apply, the reward is None; or, if the trainer may count None as 0.0, the same as for an
        error.

        Args:
            outcomes: one for each completion.
            trainer: the trainer's arguments; its `log_metric` and `log_extra` are called, if it has them.

        Raises:
            ScoreMissing: a score is missing and `missing` is "raise", or all scores are missing. If the grader applies
                to no completion, this is raised only if it is the only reward function of a trainer that may count None
                as 0.0: to others, it may apply in another process.
        """
        log_metric, log_extra = trainer.get("log_metric"), trainer.get("log_extra")
        for outcome in outcomes:
            self._log_first_of_kind(outcome)
        if callable(log_metric) and outcomes:
            for name, value in self._metrics(outcomes):
                log_metric(f"{self._key}/{name}", value)
        if callable(log_extra):
            log_extra(f"{self._key}/reason", [_reason(outcome) for outcome in outcomes])
        leaves_out, is_alone = _leaves_out(log_metric), _is_alone(log_metric)
        usual: Missing = "none" if leaves_out and is_alone else "raise"  # beside other reward functions, None is 0.0
        missing = usual if self._missing is None else self._missing
        passed_over: Missing = "none" if leaves_out else missing
        rewards = [
            _reward(one, row, missing if one.not_applicable is None else passed_over)
            for row, one in enumerate(outcomes)
        ]
        if outcomes and all(outcome.score is None for outcome in outcomes):
            failed = next((row for row, outcome in enumerate(outcomes) if outcome.not_applicable is None), None)
            if failed is not None or (is_alone and not leaves_out):
                row = failed or 0
                error = ScoreMissing(outcomes[row], row)
                error.add_note("no completion of this step has a score: missing= decides only where another has one")
                raise error
            if is_alone:
                self._log_no_use(outcomes)
        return rewards

    def _metrics(self, outcomes: Sequence[Outcome]) -> Iterator[tuple[str, float]]:
        """Yield the share of errors, in total and by part, the share of completions that the grader does not apply to,
        and the means of named values. The shares are always yielded: a mean over steps would be wrong if some steps had
        none.
        """
        yield "error_rate", sum(outcome.error is not None for outcome in outcomes) / len(outcomes)
        applies = [outcome for outcome in outcomes if outcome.not_applicable is None]
        yield "not_applicable_rate", 1 - len(applies) / len(outcomes)
        found: dict[str, list[float]] = {part: [] for part in self._parts}
        may_differ = (_installed() or _OWN_METRICS) >= _OWN_METRICS
        for outcome in outcomes:
            for name, value in (outcome.values or {}).items():
                if may_differ or name in found:
                    found.setdefault(name, []).append(value)
        for part in self._parts:
            missing = sum(part not in (outcome.values or {}) for outcome in applies)
            yield f"{part}/error_rate", missing / len(outcomes)
        for name, values in found.items():
            if values:
                yield name, sum(values) / len(values)

    def _log_no_use(self, outcomes: Sequence[Outcome]) -> None:
        if "not_applicable" not in self._reported:
            self._reported.add("not_applicable")
            _log.warning(
                "grader %s applies to none of the %d completions of this process in a step, which then have no reward: "
                "the trainer leaves them out. Further such steps are not logged; %s/not_applicable_rate counts them",
                outcomes[0].grader,
                len(outcomes),
                self._key,
            )

    def _log_first_of_kind(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is not None and error.kind not in self._reported:
            self._reported.add(error.kind)
            _log.warning(
                "grader %s gave no score (%s): %s. Further errors of this kind are not logged",
                outcome.grader,
                error.kind,
                error.message.removesuffix("."),
            )


def _reward(outcome: Outcome, row: int, missing: Missing) -> float | None:
    if outcome.score is None and missing == "raise":
        error = ScoreMissing(outcome, row)
        error.add_note('to go on without such scores: as_trl_reward(missing="none"), or missing= a number')
        raise error
    return outcome.score if outcome.score is not None or isinstance(missing, str) else float(missing)


def _reason(outcome: Outcome) -> str:
    if outcome.not_applicable is not None:
        return f"not applicable: {outcome.not_applicable}"
    return f"{outcome.error.kind}: {outcome.error.message}" if outcome.error else outcome.reason or ""


def generations(prompts: Sequence[Any], trainer: Mapping[str, Any]) -> list[list[int]]:
    """The positions of the generations of each prompt: adjacent equal prompts. `trainer` is the trainer's arguments.

    Raises:
        ValueError: the trainer, if it is known, makes more generations of a prompt than are present.
    """
    found = groups.neighbours(prompts)
    number = _generations_of(trainer.get("log_metric"))
    if number is None:
        return found
    for group in found:
        if len(group) % number:
            raise ValueError(
                f"{len(group)} generations of a prompt came to a grader of groups, and the trainer makes {number}: the "
                "others are with another process. Let each process have all of them: make "
                "`per_device_train_batch_size` and `per_device_eval_batch_size` multiples of the number of generations"
            )
    return [group[start : start + number] for group in found for start in range(0, len(group), number)]


def _generations_of(log_metric: Callable[[str, float], object] | None) -> int | None:
    trainer = getattr(log_metric, "__self__", None)
    is_training = getattr(getattr(trainer, "model", None), "training", True)
    number = getattr(trainer, "num_generations" if is_training else "num_generations_eval", None)
    return number if isinstance(number, int) and number > 0 else None


class TrlReward:
    """A function for `reward_funcs`. It can be pickled, including the URL and the API key of its client."""

    def __init__(
        self, score: _Score, policy: RewardPolicy, name: str, columns: Collection[str] | None, of_groups: bool
    ) -> None:
        """`of_groups`: whether the generations of a prompt are scored together."""
        self.__name__ = self.__qualname__ = name  # the trainer logs it under this name
        self._score = score
        self._policy = policy
        self._columns = columns
        self._of_groups = of_groups

    def __call__(self, *, prompts: Sequence[Any], completions: Sequence[Any], **more: Any) -> list[float | None]:
        """Return a reward for each completion, None if it has none."""
        rows = threads(prompts, completions, more, self._columns)
        if not self._of_groups:
            return self._policy.rewards(self._score(rows), more)
        places = generations(prompts, more)
        return self._policy.rewards(groups.of_each(self._score(groups.lines(rows, places)), places), more)


def _number(missing: object) -> float:
    if isinstance(missing, bool) or not isinstance(missing, Real) or not isfinite(missing):
        raise ValueError(f"missing={missing!r} is none of 'raise', 'none' and a finite number")
    return float(missing)


def _turns(value: Any, place: str) -> Any:
    if value is None:
        raise ValueError(f"{place}: it is None, and must be text or a list of messages")
    return value if isinstance(value, str) else messages(value, place)
