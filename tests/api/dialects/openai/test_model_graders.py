from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from examples.model_server import ModelServer, Script
from tests.api.dialects.openai.conftest import asking, check, has_none, multi, refused

if TYPE_CHECKING:
    from openai.resources.fine_tuning.alpha import Graders
    from openai.types.fine_tuning.alpha import GraderRunResponse

pytestmark = pytest.mark.service

LABELS: dict[str, Any] = {"labels": ["right", "wrong", "unsure"], "passing_labels": ["right", "unsure"]}
ITEM = {"question": "6 x 7"}
_PARSE = "model_grader_parse_error"


@pytest.fixture
def says(model_server: ModelServer) -> Iterator[Any]:
    """Sets the reply of the model `judge`, on a server without schemas."""

    def say(reply: str) -> ModelServer:
        model_server.script = Script(reply=reply, schemas=False)
        model_server.bodies.clear()
        return model_server

    yield say
    model_server.script = Script()


def run(graders: Graders, grader: Any, sample: str = "42") -> GraderRunResponse:
    return graders.run(grader=grader, model_sample=sample, item=ITEM)


def flags(answer: GraderRunResponse) -> set[str]:
    return {name for name, value in answer.metadata.errors.model_dump(by_alias=True).items() if value is True}


@pytest.mark.parametrize(
    ("result", "range_", "reward"),
    [
        *(("0.25", None, 0.25), ("7", None, 1.0), ("-3.5", None, 0.0), ("7", [1, 5], 5.0), ("2", [1, 5], 2.0)),
        ("1" + "0" * 400, [1, 5], 5.0),
    ],
)
def test_a_score_is_what_the_model_says_within_the_range(
    graders: Graders, says: Any, result: str, range_: list[int] | None, reward: float
) -> None:
    says(f'{{"steps": [], "result": {result}}}')
    more: dict[str, Any] = {"range": range_} if range_ else {}
    grader = asking("score_model", **more)
    answer = run(graders, grader)
    assert (answer.reward, flags(answer)) == (reward, set())


def test_what_the_model_is_sent(graders: Graders, model_server: ModelServer) -> None:
    model_server.bodies.clear()
    parts = ["Q: {{item.question}}", {"type": "output_text", "text": "A: {{sample.output_text}}"}]
    developer = {"role": "developer", "content": {"type": "input_text", "text": "You grade."}}
    turns = [developer, {"role": "user", "content": parts}]
    sampling = {"temperature": 0.5, "seed": 7, "max_completions_tokens": 99}
    answer = run(graders, asking("score_model", "fresh", input=turns, sampling_params=sampling), "{{item.question}}")
    assert answer.reward == 0.0 and not flags(answer)
    (body,) = [body for body in model_server.bodies if body["messages"][0]["content"] == "You grade."]
    assert body["messages"][0]["role"] == "system"
    assert body["messages"][1]["content"].startswith("Q: 6 x 7\nA: {{item.question}}\n\nAnswer with one JSON object")
    assert (body["temperature"], body["seed"]) == (0.5, 7)
    assert 99 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert body["response_format"]["json_schema"]["schema"]["properties"]["result"] == {"type": "number"}
    assert (answer.metadata.sampled_model_name, answer.metadata.token_usage) == ("fresh", 15)
    assert answer.api_model_grader_token_usage_per_model == {"fresh": 15}


@pytest.mark.parametrize(
    "reply", ["7", '{"steps": [], "result": "7"}', '{"result": 7}', '{"steps": [], "result": 1e999}', "I say 0.5", "{}"]
)
def test_a_reply_that_is_no_number_is_an_error_and_no_score(graders: Graders, says: Any, reply: str) -> None:
    says(reply)
    answer = run(graders, asking("score_model"))
    assert has_none(answer) and flags(answer) == {_PARSE}
    assert (answer.metadata.errors.api_model_grader_server_error_details or "").startswith("invalid_reply: ")


@pytest.mark.parametrize(
    ("model", "flag"), [("refuses", "model_grader_refusal_error"), ("cuts", _PARSE), ("chatty", _PARSE)]
)
@pytest.mark.parametrize("kind", ["score_model", "label_model"])
def test_what_became_of_the_model_has_a_flag(
    graders: Graders, model_server: ModelServer, kind: str, model: str, flag: str
) -> None:
    answer = run(graders, asking(kind, model, **(LABELS if kind == "label_model" else {})))
    assert has_none(answer) and flags(answer) == {flag}


@pytest.mark.parametrize(("label", "reward"), [("right", 1.0), ("Unsure", 1.0), ("wrong", 0.0)])
def test_a_label_passes_or_does_not(graders: Graders, says: Any, label: str, reward: float) -> None:
    says(f'{{"reasoning": "so", "option": "{label}"}}')
    answer = run(graders, asking("label_model", **LABELS))
    assert (answer.reward, flags(answer)) == (reward, set())


def test_a_label_is_asked_for_with_the_sampling_parameters(graders: Graders, says: Any) -> None:
    server = says('{"reasoning": "so", "option": "right"}')
    sampling = {"temperature": 0, "seed": 7, "max_completions_tokens": 99}
    answer = run(graders, asking("label_model", **LABELS, sampling_params=sampling))
    assert (answer.reward, flags(answer)) == (1.0, set())
    assert {(body["temperature"], body["seed"]) for body in server.bodies} == {(0, 7)}
    assert {body.get("max_tokens") or body.get("max_completion_tokens") for body in server.bodies} == {99}


def test_no_label_is_taken_for_the_one_that_it_is_most_alike(graders: Graders, says: Any) -> None:
    server = says("not right")
    answer = run(graders, asking("label_model", **LABELS))
    assert has_none(answer) and flags(answer) == {_PARSE}
    assert len([body for body in server.bodies if "response_format" not in body]) == 3


def test_inside_a_multi(graders: Graders, says: Any) -> None:
    says('{"steps": [], "result": 0.5}')
    parts = {"score": asking("score_model"), "exact": check(reference="42")}
    answer = run(graders, multi("score + exact", **parts))
    assert (answer.reward, answer.sub_rewards) == (1.5, {"score": 0.5, "exact": 1.0})
    assert answer.api_model_grader_token_usage_per_model == {"judge": 15}
    parts["score"] = asking("score_model", "refuses")
    answer = run(graders, multi("score + exact", **parts))
    assert has_none(answer) and answer.sub_rewards == {"score": None, "exact": 1.0}
    assert flags(answer) == {"model_grader_refusal_error"}


def test_a_name_that_the_item_lacks(graders: Graders, model_server: ModelServer) -> None:
    answer = graders.run(grader=asking("score_model"), model_sample="42", item={})
    assert has_none(answer) and flags(answer) == {"invalid_variable_error"}


def test_a_project_without_the_model_is_told_which_it_has(graders: Graders, model_server: ModelServer) -> None:
    for call in (graders.validate, lambda grader: run(graders, grader)):
        with refused(r"no model 'gpt-4o' \(it has .*judge") as error:
            call(grader=asking("score_model", "gpt-4o"))
        assert error.value.param == "grader.model"


def test_messages_that_are_too_long_are_refused(graders: Graders, model_server: ModelServer) -> None:
    grader = asking("score_model", input=[{"role": "user", "content": "{{item.question}}"}] * 64)
    with refused("longer than", "APIStatusError") as error:
        graders.run(grader=grader, model_sample="", item={"question": "x" * 1_000_000})
    assert error.value.status_code == 413
