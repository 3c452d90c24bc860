"""TRL: `reward_func(prompts=…, completions=…, completion_ids=…, **columns) -> list[float | None]`.

As `GRPOTrainer._calculate_rewards` of trl 1.16 calls it: each column of the dataset comes as a list with an entry for
each completion, beside objects of the trainer's own.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeAlias

from gradebox.errors import ScoreMissing
from gradebox.outcome import Outcome
from gradebox.rewards.plain import messages, metadata

Missing: TypeAlias = Literal["raise", "none"] | float
"""What a completion without a score has: an exception, the reward None, or this number."""

_OWN = frozenset(("completion_ids", "environments"))  # the trainer's, and no columns of the dataset
# From here on the trainer leaves a completion with the reward None out. Before, it takes the sum of a completion's
# rewards by `nansum`, where None is 0.0 (read in trl 1.5 and 1.6, seen in 0.24 and 1.16).
_LEAVES_OUT = (1, 6)

_Score: TypeAlias = Callable[[list[dict[str, Any]]], list[Outcome]]

_log = logging.getLogger("gradebox")


def usual_missing() -> Missing:
    """What suits the TRL that is installed: None counts as 0.0 before trl 1.6, so it is an exception there."""
    try:
        installed = version("trl").split(".")
    except PackageNotFoundError:  # another caller, which sees each None
        return "none"
    number = tuple(int(part) for part in installed[:2] if part.isdecimal())
    return "none" if number >= _LEAVES_OUT else "raise"


def threads(prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A thread for each completion; what the dataset says of it is its metadata."""
    number = len(completions)
    rows = {
        name: row
        for name, row in columns.items()
        if name not in _OWN and isinstance(row, list | tuple) and len(row) == number
    }
    return [
        {
            "prompt": _turns(prompts[index]),
            "completion": _turns(completions[index]),
            "metadata": metadata({name: row[index] for name, row in rows.items()}),
        }
        for index in range(number)
    ]


class RewardPolicy:
    """How outcomes become rewards. The first error of each kind is logged once.

    `key` is the grader's; `missing` is what a completion without a score has, by default what `usual_missing` says.
    """

    def __init__(self, key: str, missing: Missing | None) -> None:
        if isinstance(missing, str) and missing not in ("raise", "none"):
            raise ValueError(f"missing={missing!r} is none of 'raise', 'none' and a number")
        self._key = key
        self._missing = usual_missing() if missing is None else missing
        self._told: set[str] = set()

    def rewards(
        self, outcomes: Sequence[Outcome], log_metric: Callable[[str, float], object] | None
    ) -> list[float | None]:
        """A reward for each outcome. `log_metric` is the trainer's, where it has one.

        Raises:
            ScoreMissing: a score is missing and `missing` says so, or all of them are.
        """
        failed = [outcome for outcome in outcomes if outcome.score is None]
        for outcome in failed:
            self._tell(outcome)
        if log_metric is not None and outcomes:
            log_metric(f"{self._key}/error_rate", len(failed) / len(outcomes))
        if failed and (self._missing == "raise" or len(failed) == len(outcomes)):
            raise ScoreMissing(failed[0])
        instead = None if isinstance(self._missing, str) else float(self._missing)
        return [instead if outcome.score is None else outcome.score for outcome in outcomes]

    def _tell(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is not None and error.kind not in self._told:
            self._told.add(error.kind)
            _log.warning(
                "grader %s gave no score (%s): %s. Further errors of this kind are not logged",
                outcome.grader,
                error.kind,
                error.message,
            )


class TrlReward:
    """A function for `reward_funcs`. It can be pickled, with the URL and the API key of its client."""

    def __init__(self, key: str, score: _Score, missing: Missing | None) -> None:
        self.__name__ = self.__qualname__ = key  # under which the trainer logs it
        self._score = score
        self._policy = RewardPolicy(key, missing)

    def __call__(
        self, *, prompts: Sequence[Any], completions: Sequence[Any], log_metric: Any = None, **columns: Any
    ) -> list[float | None]:
        """A reward for each completion, None where it has none."""
        return self._policy.rewards(self._score(threads(prompts, completions, columns)), log_metric)


def _turns(value: Any) -> Any:
    return value if isinstance(value, str) else messages(value)
