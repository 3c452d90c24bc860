"""Tests of rewards, called as verifiers does. Its own code runs only where installed: it is too large to require."""

import asyncio
import inspect
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from gradebox import AsyncGraderHandle, GraderHandle, Outcome, ScoreMissing, StringThread
from gradebox.client.reward_functions import RewardFunctions
from gradebox.client.thread_line import Thread
from gradebox.errors import TooLarge
from gradebox.rewards import verifiers

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


class ToolCall(BaseModel):
    id: str
    name: str
    arguments: str


class Message(BaseModel):
    role: str
    content: str | list[dict[str, str]] | None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class TaskData(BaseModel):
    prompt: str | None = None
    system_prompt: str | None = None
    answer: str = "4"


class Task(BaseModel):
    data: TaskData


class Trace(BaseModel):
    task: Task
    messages: list[Message]


def trace(said: str) -> Trace:
    asked = Message(role="user", content=[{"type": "text", "text": "2+2?"}])
    return Trace(task=Task(data=TaskData(prompt="2+2?")), messages=[asked, Message(role="assistant", content=said)])


def invoke(fn: Callable[..., Any], available: dict[str, Any]) -> Any:
    """Calls a reward as `Task.score` does (verifiers 0.4, verifiers/v1/utils/decorators.py)."""
    params = inspect.signature(fn).parameters
    kwargs = {name: available[name] for name in params if name in available}
    return fn(**kwargs)


async def score(fn: Callable[..., Any], *traces: Trace) -> list[Any]:
    return await asyncio.gather(
        *(invoke(fn, {"task": each.task.data, "trace": each, "runtime": None}) for each in traces),
        return_exceptions=True,
    )


async def call_individual_reward_func(func: Callable[..., Any], state: dict[str, Any], **objects: object) -> float:
    """`Rubric._call_individual_reward_func` (verifiers 0.1, verifiers/rubrics/rubric.py)."""
    row = {"prompt": state["prompt"], "completion": state["completion"], "answer": state["answer"], "state": state}
    merged = {"info": state["info"], "difficulty": 3, "parser": object(), "task": "sums", **objects, **row}
    assert any(p.kind == p.VAR_KEYWORD for p in inspect.signature(func).parameters.values())
    assert not set(inspect.signature(func).parameters) & {"states", "prompts", "completions", "tasks"}  # no group
    try:
        return float(await func(**merged))
    except Exception:
        return 0.0


async def score_group(grader: GraderHandle, *states: dict[str, Any]) -> list[float]:
    reward = grader.as_verifiers_reward()
    return await asyncio.gather(*(call_individual_reward_func(reward, state) for state in states))


def rollout(said: str) -> dict[str, Any]:
    prompt, completion = [{"role": "user", "content": "2+2?"}], [{"role": "assistant", "content": said}]
    return {"prompt": prompt, "completion": completion, "answer": "4", "info": {"level": 1}, "error": None}


def test_rewards_of_a_task(grader: GraderHandle) -> None:
    right, wrong, missing = asyncio.run(score(grader.as_verifiers_reward(), trace("4"), trace("5"), trace("bad")))
    assert (right, wrong) == (1.0, 0.0)
    assert isinstance(missing, ScoreMissing)


def test_the_reasoning_is_a_member_of_its_message() -> None:
    rolled = trace("4")
    rolled.messages[-1].reasoning_content = "2 and 2"
    message = verifiers.of_trace(rolled, None)["messages"][-1]
    assert message == {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}


def test_a_prompt_that_is_text_is_of_the_user(grader: GraderHandle) -> None:
    """As `Environment.init_state` makes it (verifiers 0.1.14, verifiers/utils/message_utils.py)."""
    state = {**rollout("4"), "prompt": [Message(role="text", content="2+2?")]}
    assert verifiers.of_rubric(state)["prompt"] == [{"role": "user", "content": "2+2?"}]
    assert asyncio.run(call_individual_reward_func(grader.as_verifiers_reward(), state)) == 1.0


def test_a_method_of_a_task(grader: GraderHandle) -> None:
    class Sums:
        same = grader.as_verifiers_reward()

    assert asyncio.run(score(Sums().same, trace("4"))) == [1.0]
    assert asyncio.run(score(Sums().same, trace("5"))) == [0.0]  # in another event loop


def test_a_reward_can_be_pickled(grader: GraderHandle) -> None:
    """With the marks that `vf.reward` sets."""
    reward: Any = grader.as_verifiers_reward()
    reward.reward, reward._vf_weight = True, 2.0
    again = pickle.loads(pickle.dumps(reward))
    assert (again.__name__, again.reward, again._vf_weight) == (grader.key, True, 2.0)
    assert inspect.signature(again) == inspect.signature(reward)
    assert asyncio.run(score(again, trace("4"), trace("5"))) == [1.0, 0.0]
    assert asyncio.run(call_individual_reward_func(again, rollout("4"))) == 1.0


def test_rewards_of_a_rubric(grader: GraderHandle) -> None:
    states = [rollout("4"), rollout("5"), rollout("bad")]
    assert asyncio.run(score_group(grader, *states)) == [1.0, 0.0, 0.0]
    assert [type(state["error"]) for state in states] == [type(None), type(None), ScoreMissing]


class Unreachable(RewardFunctions):
    def _reward_name(self) -> str:
        return "same"

    def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        raise ConnectionError("no service")

    _score_by_workers = score


def test_other_errors_of_a_rubric(grader: GraderHandle) -> None:
    """A `Rubric` turns these into 0.0, too."""
    image, no_role, unreachable = rollout("4"), rollout("4"), rollout("4")
    image["info"] = {"image": object()}
    no_role["completion"] = [{"content": "4"}]
    for given, state in ((grader, image), (grader, no_role), (Unreachable(), unreachable)):
        assert asyncio.run(call_individual_reward_func(given.as_verifiers_reward(), state)) == 0.0
    assert "column 'image'" in str(image["error"])
    assert "role 'None'" in str(no_role["error"])
    assert str(unreachable["error"]) == "no service"


def test_a_message_without_content_is_an_error_of_its_rollout_alone(grader: GraderHandle) -> None:
    no_content, other = rollout("4"), rollout("4")
    no_content["completion"] = [{"role": "assistant", "value": "4"}]
    assert asyncio.run(score_group(grader, no_content, other)) == [0.0, 1.0]
    assert 'completion[0]: "content" is missing' in str(no_content["error"])


def test_a_rollout_that_is_too_long_is_an_error_of_its_own(grader: GraderHandle) -> None:
    states = [rollout("4"), rollout("4" * (5 << 20)), rollout("4")]
    assert asyncio.run(score_group(grader, *states)) == [1.0, 0.0, 1.0]
    assert [type(state["error"]) for state in states] == [type(None), TooLarge, type(None)]
    assert str(states[1]["error"]).startswith("the thread is longer than 4194304 bytes")


def test_what_a_rubric_passes_besides_the_row(grader: GraderHandle) -> None:
    """From verifiers 0.1.8 on, `state["input"]` is the row. `JudgeRubric` and others pass objects of their own."""
    reward = grader.as_verifiers_reward()
    state = rollout("4")
    state["input"] = {"prompt": state["prompt"], "answer": "4", "difficulty": 3}
    assert asyncio.run(call_individual_reward_func(reward, state, judge_client=object())) == 1.0
    thread = verifiers.of_rubric({**state, "state": state, "judge": object(), "difficulty": 3, "task": "sums"})
    assert thread["metadata"] == {"level": 1, "answer": "4", "difficulty": 3, "task": "sums"}


@pytest.mark.parametrize(
    ("row", "info", "answer", "metadata"),
    [
        ({}, {"answer": "4"}, "", {"answer": "4"}),
        ({}, {"answer": "4"}, "7", {"answer": "4"}),
        ({}, {}, "", {}),
        ({}, {}, "7", {"answer": "7"}),  # the environment has set it
        ({"answer": "6"}, {"answer": "4"}, "6", {"answer": "6"}),
        ({"answer": ""}, {"answer": "4"}, "", {"answer": ""}),
        (None, {"answer": "4"}, "", {"answer": "4"}),  # before verifiers 0.1.8
        (None, {"answer": "4"}, "6", {"answer": "6"}),
    ],
)
def test_an_answer_that_the_row_lacks_does_not_replace_that_of_info(
    row: dict[str, str] | None, info: dict[str, str], answer: str, metadata: dict[str, str]
) -> None:
    """A `Rubric` passes `state.get("answer", "")`."""
    state = {} if row is None else {"input": row}
    passed = {"prompt": "2+2?", "completion": "5", "answer": answer, "info": info, "state": state}
    assert verifiers.of_rubric(passed)["metadata"] == metadata


def test_columns_that_are_called_as_members_are_these() -> None:
    row = {"metadata": {"answer": "4"}, "id": 7, "answer": "5", "level": 1}
    passed = {"prompt": "q", "completion": "c", "info": {"id": 8, "metadata": 9, "level": 2}, "state": {"input": row}}
    thread = verifiers.of_rubric({**passed, **row})
    assert thread["id"] == 7
    assert thread["metadata"] == {"id": 8, "metadata": 9, "level": 1, "answer": "4"}


def test_tool_calls_are_objects(grader: GraderHandle) -> None:
    calls = [ToolCall(id="c", name="add", arguments="{}")]
    messages = [
        Message(role="assistant", content=None, tool_calls=calls),
        Message(role="tool", content="4", tool_call_id="c"),
        Message(role="assistant", content="4"),
    ]
    one = Trace(task=Task(data=TaskData()), messages=messages)
    assert asyncio.run(score(grader.as_verifiers_reward(), one)) == [1.0]
    (call,) = StringThread.from_object(verifiers.of_trace(one, None)).tool_calls
    assert (call.name, call.arguments, call.result) == ("add", {}, "4")


def test_awaited(awaited: AsyncGraderHandle) -> None:
    assert asyncio.run(score(awaited.as_verifiers_reward(), *[trace("4"), trace("5")] * 200)) == [1.0, 0.0] * 200


def test_verifiers_itself(grader: GraderHandle) -> None:
    pytest.importorskip("verifiers.v1")
    import verifiers.v1 as vf
    from verifiers.v1 import graph, types
    from verifiers.v1 import trace as traces

    class Data(vf.TaskData):  # type: ignore[misc]  # not installed where types are checked
        answer: str = "4"

    class Sums(vf.Task[Data]):  # type: ignore[misc]  # as above
        same = vf.reward(grader.as_verifiers_reward(), weight=2.0)

    async def rewards(said: str) -> Any:
        data = Data(prompt="2+2?")
        nodes = [
            graph.MessageNode(message=types.UserMessage(content="2+2?")),
            graph.MessageNode(parent=0, message=types.AssistantMessage(content=said), sampled=True),
        ]
        one = traces.Trace.model_construct(
            task=traces.TraceTask.model_construct(data=data), nodes=nodes, rewards={}, metrics={}
        )
        await Sums(data).score(one)
        return one.reward

    assert asyncio.run(rewards("4")) == 2.0
    assert asyncio.run(rewards("5")) == 0.0
    with pytest.raises(vf.TaskError, match="no answer at all"):
        asyncio.run(rewards("bad"))
