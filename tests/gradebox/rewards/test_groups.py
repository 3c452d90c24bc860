"""Tests of a grader of groups as a reward: the generations of a prompt are one group."""

import asyncio
import math
import pickle
from typing import Any
from uuid import uuid4

import pytest

from gradebox import Client, GraderHandle, ScoreMissing
from gradebox.outcome import CompletionScore, Outcome, OutcomeError, with_completion_scores
from gradebox.rewards import groups
from tests.gradebox.conftest import Service
from tests.gradebox.rewards.conftest import awaiting
from tests.gradebox.rewards.test_trl import calculate_rewards

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

# Each score counts the longer completions. An empty one is an error, "off" does not apply, "crash" ends the process.
SHORTEST = """
import os
from gradebox import NotApplicable, Score


async def grade(threads: list[StringThread]) -> list[Score | Exception]:
    said = [thread.completion() for thread in threads]
    if "crash" in said:
        os._exit(3)
    found = []
    for own in said:
        if own == "off":
            found.append(NotApplicable("nothing to compare"))
        elif not own:
            found.append(ValueError("it says nothing"))
        else:
            wins = sum(len(own) < len(other) for other in said)
            found.append(Score(wins, reason=f"won {wins} of {len(said) - 1}", values={"size": len(said)}))
    return found
"""
INPUTS = [{"prompt": "a?"}] * 3 + [{"prompt": "b?"}] * 3
COMPLETIONS = ["x", "xxx", "xx", "xx", "xxx", "x"]
REWARDS = [2.0, 0.0, 1.0, 1.0, 0.0, 2.0]


@pytest.fixture(scope="module")
def shortest(client: Client) -> GraderHandle:
    key = f"shortest-{uuid4().hex[:8]}"
    client.graders.create.function(key=key, fn=SHORTEST)
    return client.graders.get(key)


def test_each_generation_of_a_prompt_has_its_own_reward(shortest: GraderHandle) -> None:
    assert calculate_rewards(shortest.as_trl_reward(), INPUTS, COMPLETIONS) == REWARDS
    talk = [{"prompt": [{"role": "user", "content": one["prompt"]}]} for one in INPUTS]
    said = [[{"role": "assistant", "content": each}] for each in COMPLETIONS]
    assert calculate_rewards(shortest.as_trl_reward(), talk, said) == REWARDS
    assert calculate_rewards(pickle.loads(pickle.dumps(shortest.as_trl_reward())), INPUTS, COMPLETIONS) == REWARDS


def test_awaited(service: Service, shortest: GraderHandle) -> None:
    reward = asyncio.run(awaiting(service).graders.get(shortest.key)).as_trl_reward()
    assert calculate_rewards(reward, INPUTS, COMPLETIONS) == REWARDS


def test_one_without_a_score_follows_the_rule_for_those_and_the_others_have_theirs(shortest: GraderHandle) -> None:
    completions = ["x", "", "xx", "off", "xxx", "x"]
    rewards = calculate_rewards(shortest.as_trl_reward(missing="none"), INPUTS, completions)
    assert [None if math.isnan(reward) else reward for reward in rewards] == [1.0, None, 0.0, None, 0.0, 2.0]
    assert calculate_rewards(shortest.as_trl_reward(missing=-1.0), INPUTS, completions)[1] == -1.0
    with pytest.raises(ScoreMissing, match="it says nothing"):
        calculate_rewards(shortest.as_trl_reward(missing="raise"), INPUTS, completions)


def test_what_ends_a_group_costs_that_group(shortest: GraderHandle) -> None:
    completions = ["x", "xx", "xxx", "x", "crash", "xx"]
    rewards = calculate_rewards(shortest.as_trl_reward(missing="none"), INPUTS, completions)
    assert [None if math.isnan(reward) else reward for reward in rewards] == [2.0, 1.0, 0.0, None, None, None]


class Trainer(dict[str, float]):
    """A trainer with the method `log_metric`. It holds the metrics."""

    num_generations = 3

    def log_metric(self, name: str, value: float) -> None:
        self[name] = value


def test_equal_prompts_that_follow_each_other_are_groups_of_their_own(shortest: GraderHandle) -> None:
    trainer = Trainer()
    reward = shortest.as_trl_reward()
    assert reward(prompts=["a?"] * 6, completions=COMPLETIONS, log_metric=trainer.log_metric) == REWARDS
    assert trainer[f"{shortest.key}/size"] == 3.0


def test_a_part_of_the_generations_of_a_prompt_is_refused(shortest: GraderHandle) -> None:
    with pytest.raises(ValueError, match=r"2 generations of a prompt .* the trainer makes 3"):
        shortest.as_trl_reward()(prompts=["a?"] * 2, completions=["x", "xx"], log_metric=Trainer().log_metric)


def _verl(reward: Any, completions: list[str], infos: list[dict[str, Any]]) -> list[float]:
    count = len(completions)
    scores: list[float] = reward(
        data_sources=["gsm8k"] * count, solution_strs=completions, ground_truths=["4"] * count, extra_infos=infos
    )
    return scores


def test_verl_tells_generations_by_their_uid_or_index_wherever_they_stand(shortest: GraderHandle) -> None:
    """With `balance_batch`, verl changes the order of samples before it scores them."""
    reward = shortest.as_verl_compute_score(batched=True)
    for order, own in ((range(6), False), ([0, 3, 1, 4, 2, 5], True), ([0, 3, 1, 4, 2, 5], False)):
        infos: list[dict[str, Any]] = [{"index": place // 3, "num_turns": place} for place in order]
        if own:
            infos = [info | {"uid": "ab"[info["index"]], "index": 1} for info in infos]
        assert _verl(reward, [COMPLETIONS[place] for place in order], infos) == [REWARDS[place] for place in order]
    with pytest.raises(ScoreMissing, match="it says nothing"):
        _verl(reward, ["", *COMPLETIONS[1:]], infos)


@pytest.mark.parametrize("info", [{}, {"question": "2+2?"}, {"index": None}, {"uid": None}])
def test_samples_of_verl_that_may_be_of_any_prompt_are_refused(shortest: GraderHandle, info: dict[str, Any]) -> None:
    reward = shortest.as_verl_compute_score(batched=True)
    with pytest.raises(ValueError, match='"index" of each row'):
        _verl(reward, COMPLETIONS[:2], [{"index": 1}, info])


def test_who_scores_one_completion_at_a_time_is_refused(service: Service, shortest: GraderHandle) -> None:
    for grader in (shortest, asyncio.run(awaiting(service).graders.get(shortest.key))):
        with pytest.raises(ValueError, match="batched=True"):
            grader.as_verl_compute_score()
        with pytest.raises(ValueError, match="verifiers gives it one at a time"):
            grader.as_verifiers_reward()


def test_outcomes_come_back_to_the_places_of_their_threads() -> None:
    error = OutcomeError("crash", "gone")
    results = [CompletionScore(1.0, "won", details={"a": 1}), CompletionScore(0.0)]
    whole = with_completion_scores(Outcome(0, "g@1", 0.5, 4.0), results)
    lost = Outcome(1, "g@1", None, 3.0, error=error, details={"b": 2})
    found = groups.of_each([whole, lost], [[2, 0], [1, 3, 4]])
    assert [(each.index, each.score, each.run_ms) for each in found] == [
        *((0, 0.0, 2.0), (1, None, 1.0), (2, 1.0, 2.0), (3, None, 1.0), (4, None, 1.0))
    ]
    assert [each.error for each in found] == [None, error, None, error, error]
    assert found[2].reason == "won"
    assert [each.details for each in found] == [None, {"b": 2}, {"a": 1}, {"b": 2}, {"b": 2}]


def test_scores_that_are_not_as_many_as_the_group_are_no_rewards() -> None:
    whole = Outcome(0, "g@1", 0.5, 4.0, scores=[1.0])
    with pytest.raises(ValueError, match="zip"):
        groups.of_each([whole], [[0, 1]])
