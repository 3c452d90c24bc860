"""TRL: `reward_func(prompts=…, completions=…, completion_ids=…, **columns) -> list[float | None]`.

As `GRPOTrainer._calculate_rewards` of trl 1.16 calls it: each column of the dataset comes as a list with an entry for
each completion, beside objects of the trainer's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gradebox.outcome import Outcome
from gradebox.rewards.plain import messages, metadata


def threads(prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A thread for each completion; what the dataset says of it is its metadata."""
    number = len(completions)
    rows = {name: row for name, row in columns.items() if isinstance(row, list | tuple) and len(row) == number}
    return [
        {
            "prompt": _turns(prompts[index]),
            "completion": _turns(completions[index]),
            "metadata": metadata({name: row[index] for name, row in rows.items()}),
        }
        for index in range(number)
    ]


def rewards(outcomes: Sequence[Outcome]) -> list[float | None]:
    """TRL leaves a completion whose reward is None out of this reward's share."""
    return [outcome.score for outcome in outcomes]


def _turns(value: Any) -> Any:
    return value if isinstance(value, str) else messages(value)
