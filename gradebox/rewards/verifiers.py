"""verifiers: rewards of a `Task` (0.2 and later) and of a `Rubric` (0.1).

`Task.score` calls a reward with those of `task` and `trace` that it names; `Rubric` with those of `prompt`,
`completion`, `answer`, `state`, `info`, `task` and the columns of the dataset.
"""

from collections.abc import Mapping
from typing import Any

from gradebox.errors import ScoreMissing
from gradebox.outcome import Outcome
from gradebox.rewards.plain import messages, metadata
from gradebox.rewards.verl import Columns

_IN_MESSAGES = {"prompt", "system_prompt"}
_OURS = {"prompt", "completion", "state", "parser", "info"}


def of_trace(trace: Any, task: Any, only: Columns = None) -> dict[str, Any]:
    """A rollout's messages. The metadata is what the task's data holds besides its prompts."""
    data = trace.task.data if task is None else task
    told = data.model_dump(mode="json", exclude=_IN_MESSAGES)
    return {"messages": messages(trace.messages, "trace.messages"), "metadata": metadata(told, only)}


def of_rubric(named: Mapping[str, Any], only: Columns = None) -> dict[str, Any]:
    """Prompt and completion. The metadata is `info`, and every column of the dataset."""
    info = named.get("info")
    columns = {name: value for name, value in named.items() if name not in _OURS}
    told = {**(info if isinstance(info, Mapping) else {}), **columns}
    prompt, completion = named.get("prompt") or [], named["completion"]
    return {
        "prompt": _turns(prompt, "prompt"),
        "completion": _turns(completion, "completion"),
        "metadata": metadata(told, only),
    }


def number(outcome: Outcome, state: Any) -> float:
    """verifiers knows no reward that is none.

    A `Task` notes what is raised as the rollout's error. A `Rubric` logs it and takes 0.0, so the error is also left
    where the rollouts that went wrong have theirs.

    Raises:
        ScoreMissing: there is no score.
    """
    if outcome.score is not None:
        return outcome.score
    missing = ScoreMissing(outcome)
    if isinstance(state, dict) and state.get("error") is None:
        state["error"] = missing
    raise missing


def _turns(value: Any, place: str) -> Any:
    return value if isinstance(value, str) else messages(value, place)
