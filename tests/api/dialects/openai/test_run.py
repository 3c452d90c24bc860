from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

import pytest

from api.dialects.openai.answers import Errors
from api.dialects.openai.graders import Metric
from api.dialects.openai.similarity_measures import MEASURES
from gradebox.outcome import OutcomeError
from tests.api.dialects.openai.conftest import check, has_none, multi, python, similar
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from openai.resources.fine_tuning.alpha import Graders

pytestmark = pytest.mark.service


def test_a_python_grader_is_given_the_sample_and_the_item(graders: Graders) -> None:
    assert graders.run(grader=python(), model_sample="4", item={"answer": "4"}).reward == 1.0
    assert graders.run(grader=python(), model_sample="5", item={"answer": "4"}).reward == 0.0


def test_the_answer_has_every_key_of_the_reference(graders: Graders) -> None:
    answer = graders.with_raw_response.run(grader=python(), model_sample="4", item={"answer": "4"})
    body: dict[str, Any] = answer.http_response.json()
    assert set(body) == {"reward", "metadata", "sub_rewards", "model_grader_token_usage_per_model"}
    told = {"name", "type", "execution_time", "scores", "errors", "sampled_model_name", "token_usage"}
    assert set(body["metadata"]) == told
    assert len(body["metadata"]["errors"]) == 14 and not any(body["metadata"]["errors"].values())
    assert (body["metadata"]["name"], body["metadata"]["type"]) == ("same", "python")
    assert answer.headers["x-request-id"]


def test_what_a_sample_holds(graders: Graders) -> None:
    source = """
async def grade(sample, item):
    assert item == {}
    assert sample["output_text"] == '{"a": [1, 2]}'
    assert sample["choices"][0]["message"] == {"role": "assistant", "content": sample["output_text"]}
    assert sample["output_tools"] == [] and sample["output_audio"] is None
    return sample["output_json"]["a"][1]
"""
    assert graders.run(grader=python(source), model_sample='{"a": [1, 2]}').reward == 2.0
    assert graders.run(grader=python(source), model_sample='{"a": [1, 2]}', item=None).reward == 2.0
    source = "def grade(sample, item):\n    return sample['output_json'] is None\n"
    assert graders.run(grader=python(source), model_sample="no JSON").reward == 1.0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def grade(sample, item):\n    return item['answer']\n", "exception: KeyError: 'answer' (line 2)"),
        ("def grade(sample, item):\n    return 'good'\n", "bad_return: `grade` returned a string"),
        ("def grade(sample, item):\n    return float('nan')\n", "bad_return: "),
        ("def grade(sample, item):\n    import os\n    os._exit(3)\n", "crash: the process ended itself"),
        ("def grade(sample, item):\n    import socket\n    socket.create_connection(('1.1.1.1', 80))\n", "exception: "),
    ],
)
def test_a_sample_without_a_score_is_told_apart_from_a_zero(graders: Graders, source: str, told: str) -> None:
    answer = graders.run(grader=python(source), model_sample="4", item={})
    errors = answer.metadata.errors
    assert has_none(answer) and errors.python_grader_runtime_error
    assert (errors.python_grader_runtime_error_details or "").startswith(told)


def test_a_sample_that_a_grader_does_not_apply_to_has_no_reward(graders: Graders) -> None:
    source = "from gradebox import NotApplicable\ndef grade(sample, item):\n    raise NotApplicable('no documents')\n"
    answer = graders.run(grader=python(source), model_sample="4", item={})
    errors = answer.metadata.errors
    assert has_none(answer) and errors.other_error and not errors.python_grader_runtime_error
    assert errors.python_grader_runtime_error_details == "not_applicable: no documents"


def test_a_model_that_cannot_be_reached_has_a_flag() -> None:
    errors = Errors()
    errors.add(OutcomeError("model", "it is away", cause="unreachable"))
    assert errors == Errors(model_grader_server_error=True, model_grader_server_error_details="unreachable: it is away")


@pytest.mark.parametrize(
    ("operation", "sample", "reward"),
    [
        *(("eq", "Cat", 1.0), ("eq", "cat", 0.0), ("ne", "cat", 1.0), ("ne", "Cat", 0.0), ("like", "The Cat sat", 1.0)),
        *(("like", "The cat sat", 0.0), ("ilike", "THE CAT SAT", 1.0), ("ilike", "the dog", 0.0)),
    ],
)
def test_string_checks(graders: Graders, operation: str, sample: str, reward: float) -> None:
    assert graders.run(grader=check(operation), model_sample=sample, item={"answer": "Cat"}).reward == reward


def test_templates_reach_into_items_and_samples(graders: Graders) -> None:
    item = {"a": {"b": [{"c": "x"}, 7, True, None, 1.5]}}
    for path, text in (
        ("item.a.b[0].c", "x"),
        ("item.a.b[1]", "7"),
        ("item.a.b[2]", "true"),
        ("item.a.b[3]", "null"),
        ("item.a.b[4]", "1.5"),
        ("item.a.b[0]", '{"c":"x"}'),
        ("sample.output_json.k", "v"),
        ("sample.choices[0].message.role", "assistant"),
    ):
        grader = check(input=f"<{{{{{path}}}}}|{{{{ {path} }}}}>", reference=f"<{text}|{text}>")
        assert graders.run(grader=grader, model_sample='{"k": "v"}', item=item).reward == 1.0, path


def test_what_a_template_does_not_find_is_said(graders: Graders) -> None:
    answer = graders.run(grader=check(), model_sample="4", item={})
    assert has_none(answer) and answer.metadata.errors.invalid_variable_error
    assert answer.metadata.errors.python_grader_runtime_error_details == "there is no item.answer"
    answer = graders.run(grader=check(input="{{sample.output_json.a}}", reference="x"), model_sample="no JSON")
    assert has_none(answer) and answer.metadata.errors.sample_parse_error


def test_similarity_of_what_is_alike(graders: Graders) -> None:
    assert {*MEASURES} == {*get_args(Metric)}
    item = {"answer": "The cat was sitting on the mat"}
    rewards = {
        metric: graders.run(grader=similar(metric), model_sample="the cat sat on the mat today", item=item).reward
        for metric in ("fuzzy_match", "rouge_l")
    }
    # Words in common: the, cat, on, the, mat; five of seven on both sides, in the same order.
    assert rewards["rouge_l"] == pytest.approx(5 / 7)
    assert rewards["fuzzy_match"] == pytest.approx(0.753448, abs=1e-6)


def test_a_formula_over_several_graders(graders: Graders) -> None:
    parts = {"exact": check(), "py": python("def grade(sample, item):\n    return 0.25\n")}
    grader = multi("0.5 * exact + 2 * py ^ 2 - min(py, 1)", **parts)
    answer = graders.run(grader=grader, model_sample="4", item={"answer": "4"})
    assert answer.reward == pytest.approx(0.5 + 2 * 0.0625 - 0.25)
    assert answer.sub_rewards == answer.metadata.scores == {"exact": 1.0, "py": 0.25}


def test_the_graders_of_a_multi_in_each_form_that_is_in_use(graders: Graders) -> None:
    forms: list[Any] = [{"check": check()}, [check()], check()]
    for form in forms:
        grader: Any = {"type": "multi", "name": "m", "graders": form, "calculate_output": "check + 1"}
        assert graders.run(grader=grader, model_sample="4", item={"answer": "4"}).reward == 2.0


def test_a_multi_has_no_reward_where_a_part_has_none(graders: Graders) -> None:
    parts = {"exact": check(), "py": python("def grade(sample, item):\n    raise ValueError('boom')\n")}
    answer = graders.run(grader=multi("exact + py", **parts), model_sample="4", item={"answer": "4"})
    assert has_none(answer) and answer.metadata.errors.python_grader_runtime_error
    assert answer.sub_rewards == {"exact": 1.0, "py": None}
    answer = graders.run(grader=multi("1 / exact", exact=check()), model_sample="4", item={"answer": "5"})
    errors = answer.metadata.errors
    assert has_none(answer) and errors.formula_parse_error and not errors.python_grader_runtime_error
    assert (errors.python_grader_runtime_error_details or "").startswith("formula: the formula has no value for these")


def test_each_grader_of_a_multi_that_fails_is_named(graders: Graders) -> None:
    fails = "def grade(sample, item):\n    raise ValueError('one')\n"
    does_not_apply = "from gradebox import NotApplicable\ndef grade(sample, item):\n    raise NotApplicable('two')\n"
    grader = multi("first + second", first=python(fails), second=python(does_not_apply))
    answer = graders.run(grader=grader, model_sample="4")
    assert has_none(answer) and answer.metadata.errors.python_grader_runtime_error_details == (
        "first: exception: ValueError: one (line 2)\nsecond: not_applicable: two"
    )


@pytest.fixture
def limited(service: Service) -> Iterator[None]:
    """Limits of the project, so that less time is waited for."""
    projects = service.client().projects
    projects.set_limits("default", timeout_s=8, memory_mb=1100)
    yield
    projects.reset_limits("default")


@pytest.mark.usefixtures("limited")
def test_time_and_memory_of_a_grader_cannot_be_raised(graders: Graders) -> None:
    parts = {f"fast{n}": python("def grade(sample, item):\n    return 1\n") for n in range(15)}
    slow = python("def grade(sample, item):\n    import time\n    time.sleep(60)\n")
    answer = graders.run(grader=multi("slow", slow=slow, **parts), model_sample="4")
    details = answer.metadata.errors.python_grader_runtime_error_details or ""
    assert has_none(answer) and details.startswith(
        "slow: timeout: `grade` took longer than 0.5 s, an equal part of the 8 s of all python graders"
    )
    assert "raise" not in details
    large = python("def grade(sample, item):\n    import os\n    os._exit(77)\n")  # as without memory to report it
    answer = graders.run(grader=large, model_sample="4")
    assert answer.metadata.errors.python_grader_runtime_error_details == (
        "memory: the processes of `grade` together wanted more than 1,100 MiB of memory: use less"
    )
