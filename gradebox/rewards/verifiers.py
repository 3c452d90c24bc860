"""verifiers: rewards of a `Task` (0.2 and later) and of a `Rubric` (0.1).

`Task.score` passes those of `task` and `trace` that are among the reward's parameters; `Rubric` does so for `prompt`,
`completion`, `answer`, `state`, `info`, `task` and the columns of the dataset.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gradebox.outcome import Outcome
from gradebox.rewards.collected_calls import AsyncCollectedCalls
from gradebox.rewards.plain import members, messages, metadata
from gradebox.rewards.verl import Columns, number

_Score = Callable[[list[dict[str, Any]]], Coroutine[Any, Any, list[Outcome]]]

_IN_MESSAGES = {"prompt", "system_prompt"}
_OURS = {"prompt", "completion", "state", "parser", "info"}


def of_trace(trace: Any, task: Any, only: Columns = None) -> dict[str, Any]:
    """Make a thread from a rollout's messages. The metadata is the task's data without its prompts."""
    data = trace.task.data if task is None else task
    reported = data.model_dump(mode="json", exclude=_IN_MESSAGES)
    return {"messages": messages(trace.messages, "trace.messages"), "metadata": metadata(reported, only)}


def of_rubric(named: Mapping[str, Any], only: Columns = None) -> dict[str, Any]:
    """Make a thread from prompt and completion. The metadata is `info`, and every column of the dataset, as `members`
    has them.
    """
    info = named.get("info")
    columns = {name: named[name] for name in _columns(named) if name not in _OURS}
    found = members(columns, only)
    if isinstance(info, Mapping):
        found["metadata"] = metadata(info, only) | found["metadata"]
    prompt, completion = named.get("prompt") or [], named["completion"]
    return {
        "prompt": _turns(prompt, "prompt"),
        "completion": _turns(completion, "completion"),
        **found,
    }


def _columns(named: Mapping[str, Any]) -> list[str]:
    """The names of the dataset's columns. The others are objects of the rubric, such as the client of a judge.

    From verifiers 0.1.8 on, `state["input"]` is the row. Without it, all names are columns.
    """
    state, task = named.get("state"), named.get("task")
    row = state.get("input") if isinstance(state, Mapping) else None
    if not isinstance(row, Mapping):
        return [name for name in named if name != "answer" or not _is_empty(named[name])]
    known = {"task", *row, *(task if isinstance(task, Mapping) else ())}
    info = named.get("info")
    if not _is_empty(named.get("answer")) and not (isinstance(info, Mapping) and "answer" in info):
        known.add("answer")  # set by the environment
    return [name for name in named if name in known]


def _is_empty(answer: object) -> bool:
    """Whether the answer is the text that a `Rubric` passes if the row has none."""
    return isinstance(answer, str) and not answer


def note(error: Exception, state: Any) -> None:
    """Store the error in a rollout's `state`, as for rollouts that failed: a `Rubric` logs it and uses 0.0.

    A `Task` has no `state`: it records the exception as the rollout's error.
    """
    if isinstance(state, dict) and state.get("error") is None:
        state["error"] = error


class VerifiersReward:
    """A reward for a `Rubric` or a `Task`. It can be pickled, including the URL and the API key of its client."""

    def __init__(self, name: str, score: _Score, columns: Columns) -> None:
        self.__name__ = self.__qualname__ = name  # verifiers logs it under this name
        self._columns = columns
        self._calls = AsyncCollectedCalls(score)

    async def __call__(self, *, trace: Any = None, task: Any = None, state: Any = None, **more: Any) -> float:
        """Return the rollout's reward. Raises ScoreMissing."""
        try:
            if trace is not None:
                thread = of_trace(trace, task, self._columns)
            else:
                thread = of_rubric({"task": task, "state": state, **more}, self._columns)
            return number(await self._calls.score(thread))
        except Exception as error:
            note(error, state)
            raise


def _turns(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return value
    # verifiers 0.1.14 makes a prompt that is text a message of the role "text", and sends it as the user's
    return [turn | {"role": "user"} if turn["role"] == "text" else turn for turn in messages(value, place)]
