"""Tests of rewards, called as TRL's trainer calls them."""

import asyncio
import inspect
import math
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest.mock import Mock

import cloudpickle
import numpy
import pytest

import gradebox
from gradebox import AsyncGraderHandle, Client, GraderHandle, StringThread
from gradebox.rewards import trl

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


def calculate_rewards(reward_func: Any, inputs: list[dict[str, Any]], completions: list[Any]) -> list[float]:
    """`GRPOTrainer._calculate_rewards` (trl 1.16, trl/trainer/grpo_trainer.py), with lists instead of tensors."""
    prompts = [example["prompt"] for example in inputs]
    completion_ids_list = [[1, 2, 3] for _ in completions]
    keys = [key for key in inputs[0] if key not in ["prompt", "completion", "completion_ids"]]
    reward_kwargs: dict[str, Any] = {key: [example[key] for example in inputs] for key in keys}
    reward_kwargs["trainer_state"] = object()
    reward_kwargs["log_extra"] = lambda column, values: None
    reward_kwargs["log_metric"] = lambda name, value: None
    reward_kwargs["environments"] = [object() for _ in inputs]
    called = reward_func(prompts=prompts, completions=completions, completion_ids=completion_ids_list, **reward_kwargs)
    output_reward_func = asyncio.run(called) if inspect.iscoroutinefunction(reward_func) else called
    output_reward_func = [reward if reward is not None else math.nan for reward in output_reward_func]
    if len(output_reward_func) != len(prompts):
        raise ValueError
    return [float(reward) for reward in output_reward_func]


def test_a_column_of_another_length_is_warned_of(grader: GraderHandle) -> None:
    reward = grader.as_trl_reward(missing="none")
    message = "column 'answer' is not sent: it has 1 values for 2 completions"
    with pytest.warns(gradebox.GraderWarning, match=message), pytest.raises(gradebox.ScoreMissing, match="answer"):
        reward(prompts=["2+2?"] * 2, completions=["4", "5"], answer=["4"])


def test_a_missing_score_says_how_to_go_on(grader: GraderHandle) -> None:
    samples: dict[str, Any] = {"prompts": ["2+2?"] * 2, "completions": ["4", "bad"], "answer": ["4", "4"]}
    with pytest.raises(gradebox.ScoreMissing, match=r"gave completion 1 \(from 0\), id 's-1', no score") as caught:
        grader.as_trl_reward(missing="raise")(**samples, id=["s-0", "s-1"])
    assert any("missing=" in note for note in caught.value.__notes__)


def test_texts_and_columns(grader: GraderHandle) -> None:
    inputs = [{"prompt": "2+2?", "answer": "4", "image": object()}] * 3
    rewards = calculate_rewards(grader.as_trl_reward(columns=["answer"], missing="none"), inputs, ["4", "5", "bad"])
    assert rewards[:2] == [1.0, 0.0]
    assert math.isnan(rewards[2])
    with pytest.raises(ValueError, match=r"row 0, column 'image': it holds a value of type object.*columns=\["):
        calculate_rewards(grader.as_trl_reward(), inputs, ["4", "5", "bad"])


def test_members_of_messages() -> None:
    called = [{"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": "{}"}}]
    refused = [{"role": "assistant", "content": None, "refusal": "I cannot add."}]
    empty = [{"role": "assistant", "content": None}]
    rows = [StringThread.from_object(row) for row in trl.threads(["2+2?"] * 3, [called, refused, empty], {})]
    assert [[call.name for call in row.tool_calls] for row in rows] == [["add"], [], []]
    assert [row.completion() for row in rows] == ["", "I cannot add.", ""]


def test_messages_keep_all_members() -> None:
    # as `parse_response` of trl 1.16 makes them of models that think
    said = {"role": "assistant", "content": "4", "reasoning_content": "2 and 2", "thinking": "2, 2", "name": None}
    (row,) = trl.threads(["2+2?"], [[said]], {})
    del said["name"]
    assert StringThread.from_object(row).raw_messages()[-1] == said


@pytest.mark.parametrize("said", [{"role": "assistant", "value": "4"}, {"from": "gpt", "value": "4"}])
def test_a_message_without_content_is_refused_as_any_thread_with_it(said: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r'row 1, completion\[0\]: "content" is missing or null, which only'):
        trl.threads(["?", "?"], ["4", [said]], {})


def test_content_may_be_missing_beside_tool_calls() -> None:
    calls = [{"id": "c", "function": {"name": "add", "arguments": {"a": 2}}}]
    (row,) = trl.threads(["?"], [[{"role": "assistant", "tool_calls": calls}]], {})
    assert row["completion"][0]["tool_calls"] == calls
    assert [call.name for call in StringThread.from_object(row).tool_calls] == ["add"]


def test_columns_that_are_called_as_members_are_these() -> None:
    columns = {"metadata": [{"answer": "4"}, None], "id": ["a", 7], "answer": ["5", "6"], "level": [1, 2]}
    assert trl.threads(["q", "q"], ["c", "c"], columns) == [
        {"prompt": "q", "completion": "c", "metadata": {"answer": "4", "level": 1}, "id": "a"},
        {"prompt": "q", "completion": "c", "metadata": {"answer": "6", "level": 2}, "id": 7},
    ]
    (row, _) = trl.threads(["q", "q"], ["c", "c"], columns, ["level", "metadata"])
    assert row == {"prompt": "q", "completion": "c", "metadata": {"answer": "4", "level": 1}}
    (row,) = trl.threads(["q"], ["c"], {"metadata": ["math"]})
    assert row["metadata"] == {"metadata": "math"}


LEVELS = """
async def grade(threads: list[StringThread]) -> list[float]:
    return [float(thread.metadata["level"]) for thread in threads]
"""


def test_groups_of_threads_with_ids(client: Client) -> None:
    group = {"threads": [{"completion": "c", "metadata": {"level": 1}}]}
    reward = client.graders.put("levels", fn=LEVELS, threads=[group]).as_trl_reward()
    columns: dict[str, Any] = {"metadata": [{"level": 1}, {"level": 2}], "id": ["a", "a"]}
    assert reward(prompts=["q", "q"], completions=["c", "d"], **columns) == [1.0, 2.0]


def test_conversations(grader: GraderHandle) -> None:
    prompt = [{"role": "system", "content": "Count."}, {"role": "user", "content": [{"type": "text", "text": "2+2?"}]}]
    calls = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add"}}]}
    completions = [
        [{"role": "assistant", "content": "4"}],
        [calls, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "4"}],
        [calls],
    ]
    assert calculate_rewards(grader.as_trl_reward(), [{"prompt": prompt, "answer": "4"}] * 3, completions) == [1, 1, 0]


def ask(reward: Any, *said: str, **more: Any) -> Any:
    return reward(prompts=["?"] * len(said), completions=list(said), answer=["4"] * len(said), **more)


@pytest.mark.parametrize("missing", ["zero", True, math.nan, -math.inf, ["none"]])
def test_a_missing_reward_is_no_other_value(missing: Any) -> None:
    with pytest.raises(ValueError, match="is none of 'raise', 'none' and a finite number"):
        trl.RewardPolicy("exact", missing)


def test_a_missing_reward_may_be_a_number_of_numpy(grader: GraderHandle) -> None:
    rewards = ask(grader.as_trl_reward(missing=numpy.float32(0.5)), "4", "bad")  # type: ignore[arg-type]  # no float
    assert (rewards, type(rewards[1])) == ([1.0, 0.5], float)


@pytest.mark.parametrize(
    ("prompts", "completions", "said"),
    [
        (None, ["x"], "0 prompts came with 1 completions: pass the prompt of each"),
        (["q"], ["x", "y"], "1 prompts came with 2 completions"),
        (["q", None], ["x", "y"], "row 1, prompt: it is None, and must be text or a list of messages"),
        (["q", "q"], ["x", None], "row 1, completion: it is None"),
    ],
)
def test_a_prompt_or_completion_that_is_missing_is_named(prompts: Any, completions: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trl.threads(prompts, completions, {})


def trainer(module: str, functions: int, name: str = "GRPOTrainer") -> Any:
    """A trainer as in trl, whose method `log_metric` is passed to rewards."""
    own = {"__module__": module, "log_metric": lambda self, name, value: None, "reward_funcs": [None] * functions}
    return type(name, (), own)()


@pytest.mark.parametrize(
    ("installed", "asked_by", "usual"),
    [
        ("1.16.0", trainer("trl.trainer.grpo_trainer", 1), "none"),
        ("1.16.0", trainer("trl.trainer.rloo_trainer", 1, "RLOOTrainer"), "none"),
        ("1.6.0", trainer("trl.trainer.grpo_trainer", 1), "none"),
        ("1.5.1", trainer("trl.trainer.grpo_trainer", 1), "raise"),
        ("0.24.0", None, "raise"),
        ("1.16.0", None, "raise"),
        ("1.16.0", trainer("trl.trainer.grpo_trainer", 2), "raise"),  # with other rewards, None counts as 0.0
        ("1.16.0", trainer("trl.experimental.online_dpo", 1, "OnlineDPOTrainer"), "raise"),
        ("1.16.0", trainer("mine", 1), "raise"),
        (None, None, "raise"),
    ],
)
def test_by_default_a_missing_reward_never_counts_as_zero(
    monkeypatch: pytest.MonkeyPatch, grader: GraderHandle, installed: str | None, asked_by: Any, usual: str
) -> None:
    if installed is not None:
        monkeypatch.setattr(trl, "version", lambda _name: installed)
    named = {} if asked_by is None else {"log_metric": asked_by.log_metric}
    if usual == "none":
        assert ask(grader.as_trl_reward(), "4", "bad", **named) == [1.0, None]
    else:
        with pytest.raises(gradebox.ScoreMissing):
            ask(grader.as_trl_reward(), "4", "bad", **named)


def test_a_step_without_any_score_is_raised_and_its_reason_is_in_the_log(
    grader: GraderHandle, caplog: pytest.LogCaptureFixture
) -> None:
    reward = grader.as_trl_reward(missing="none")
    metrics: dict[str, float] = {}
    columns: dict[str, list[str]] = {}
    ask(reward, "4", "bad", "bad", "off", log_metric=metrics.__setitem__, log_extra=columns.__setitem__)
    assert metrics == {f"{grader.key}/error_rate": 0.5, f"{grader.key}/not_applicable_rate": 0.25}
    why = "exception: ValueError: no answer at all (line 7)"
    assert columns == {f"{grader.key}/reason": ["", why, why, "not applicable: nothing to compare"]}
    ask(reward, "4", "bad")
    assert [record.getMessage() for record in caplog.records if record.name == "gradebox"] == [
        f"grader {grader.key}@1 gave no score (exception): ValueError: no answer at all (line 7). "
        "Further errors of this kind are not logged"
    ]
    with pytest.raises(gradebox.ScoreMissing) as caught:
        ask(reward, "bad", "bad")
    assert caught.value.__notes__[0].startswith("no completion of this step has a score: missing= decides only")


@pytest.mark.parametrize(
    ("installed", "asked_by", "is_none"),
    [
        ("1.16.0", trainer("trl.trainer.grpo_trainer", 1), True),
        ("1.16.0", trainer("trl.trainer.grpo_trainer", 2), True),  # the completion keeps the other rewards
        ("1.5.1", trainer("trl.trainer.grpo_trainer", 1), False),  # None counts as 0.0
        ("1.16.0", trainer("trl.experimental.online_dpo", 1, "OnlineDPOTrainer"), False),
        ("1.16.0", None, False),
    ],
)
def test_what_a_grader_does_not_apply_to_has_the_reward_none_where_that_is_no_zero(
    monkeypatch: pytest.MonkeyPatch, grader: GraderHandle, installed: str, asked_by: Any, is_none: bool
) -> None:
    monkeypatch.setattr(trl, "version", lambda _name: installed)
    named = {} if asked_by is None else {"log_metric": asked_by.log_metric}
    assert ask(grader.as_trl_reward(missing="none"), "4", "off", **named) == [1.0, None]
    numbered = grader.as_trl_reward(missing=-1.0)
    assert ask(numbered, "4", "off", "bad", **named) == [1.0, None if is_none else -1.0, -1.0]
    for missing in (None, "raise"):
        if is_none:
            assert ask(grader.as_trl_reward(missing=missing), "4", "off", **named) == [1.0, None]
        else:
            with pytest.raises(gradebox.ScoreMissing, match="it does not apply: nothing to compare"):
                ask(grader.as_trl_reward(missing=missing), "4", "off", **named)


def test_a_step_that_a_grader_does_not_apply_to_is_left_to_the_other_rewards_and_processes(
    monkeypatch: pytest.MonkeyPatch, grader: GraderHandle, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trl, "version", lambda _name: "1.16.0")
    alone, beside = (trainer("trl.trainer.grpo_trainer", number).log_metric for number in (1, 2))
    assert ask(grader.as_trl_reward(), "off", "off", log_metric=beside) == [None, None]
    assert not caplog.messages
    reward = grader.as_trl_reward()
    for _ in range(2):
        assert ask(reward, "off", "off", log_metric=alone) == [None, None]
    (said,) = caplog.messages
    assert f"grader {grader.key}@1 applies to none of the 2 completions" in said
    for log_metric in (alone, beside):
        with pytest.raises(gradebox.ScoreMissing, match="no answer at all"):
            ask(grader.as_trl_reward(missing="none"), "off", "bad", log_metric=log_metric)
    monkeypatch.setattr(trl, "version", lambda _name: "1.5.0")  # None counts as 0.0
    with pytest.raises(gradebox.ScoreMissing, match="it does not apply: nothing to compare"):
        ask(grader.as_trl_reward(missing="none"), "off", "off", log_metric=alone)


def test_token_ids_are_not_sent() -> None:
    told = trl.threads(["?"], ["4"], {"completion_ids": [[1, 2, 3]], "answer": ["4"]})
    assert told[0]["metadata"] == {"answer": "4"}


def test_a_reward_works_after_a_fork(grader: GraderHandle) -> None:
    reward = grader.as_trl_reward()
    assert ask(reward, "4") == [1.0]
    context = multiprocessing.get_context("fork")
    told: multiprocessing.SimpleQueue[Any] = context.SimpleQueue()
    children = [context.Process(target=lambda: told.put([ask(reward, said)[0] for said in "4545"])) for _ in range(3)]
    for child in children:
        child.start()
    mine = [ask(reward, said)[0] for said in "4545"]  # at the same time
    for child in children:
        child.join()
    assert [mine, *(told.get() for _ in children)] == [[1.0, 0.0, 1.0, 0.0]] * 4


def test_an_awaited_reward_works_in_any_event_loop(awaited: AsyncGraderHandle) -> None:
    reward = awaited.as_trl_reward()
    assert [asyncio.run(ask(reward, said)) for said in ("4", "5", "4")] == [[1.0], [0.0], [1.0]]


def test_pictures_in_messages_are_marks() -> None:
    parts = [{"type": "image", "image": object()}, {"type": "text", "text": "what is it?"}]
    (told,) = trl.threads([[{"role": "user", "content": parts}]], ["a cat"], {})
    assert gradebox.StringThread.from_object(told).get_turns()[0].content == "<|image|>what is it?"


def test_arguments_of_a_call_that_json_cannot_hold_are_refused() -> None:
    said = [{"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": {"a": object()}}}]}]
    with pytest.raises(ValueError, match=r"row 0, completion\[0\].tool_calls: it holds a value of type object"):
        trl.threads(["?"], [said], {})


VALUES = """
from gradebox import Score

async def grade(thread):
    return Score(0.5, reason="why", values={"length": len(thread.completion())})
"""


@pytest.mark.parametrize(("installed", "logged"), [("1.13.0", False), ("1.14.0", True)])
def test_means_of_values_are_metrics(
    client: Client, monkeypatch: pytest.MonkeyPatch, installed: str, logged: bool
) -> None:
    """Processes may log different metrics only since TRL 1.14: before, they would wait for each other."""
    look_up = Mock(return_value=installed)
    monkeypatch.setattr(trl, "version", look_up)
    reward = client.graders.put("with-values", fn=VALUES).as_trl_reward(missing="none")
    metrics: dict[str, float] = {}
    columns: dict[str, list[str]] = {}
    ask(reward, *["4", "four"] * 5, log_metric=metrics.__setitem__, log_extra=columns.__setitem__)
    shares = {"with-values/error_rate": 0.0, "with-values/not_applicable_rate": 0.0}
    assert metrics == shares | ({"with-values/length": 2.5} if logged else {})
    assert columns == {"with-values/reason": ["why"] * 10}
    assert look_up.call_count < 4  # a look-up takes half a millisecond


def test_a_reward_that_is_awaited_can_be_pickled(awaited: AsyncGraderHandle, grader: GraderHandle) -> None:
    again = pickle.loads(pickle.dumps(awaited))
    assert asyncio.run(ask(again.as_trl_reward(), "4", "5")) == [1.0, 0.0]
    assert ask(cloudpickle.loads(cloudpickle.dumps(grader)).as_trl_reward(), "5") == [0.0]


def test_a_reward_works_in_a_process_that_is_spawned(grader: GraderHandle) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(ask, grader.as_trl_reward(), "4", "5").result(60) == [1.0, 0.0]
        assert pool.submit(getattr, grader.as_trl_reward(), "__name__").result(60) == grader.key


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"answer": ["4", "5"]}, "column 'answr' is missing: the trainer passes answer"),
        ({"answr": ["4"]}, "column 'answr' has not 2 values: the trainer passes no columns"),
        ({"answr": "45"}, "column 'answr' has not 2 values"),
    ],
)
def test_a_named_column_that_is_not_there_is_an_error(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trl.threads(["q", "q"], ["x", "y"], columns, ["answr"])


def test_arrays_are_columns_too() -> None:
    made = trl.threads(["q", "q"], ["x", "y"], {"answer": numpy.array(["4", "5"]), "step": 2})
    assert [thread["metadata"] for thread in made] == [{"answer": "4"}, {"answer": "5"}]
