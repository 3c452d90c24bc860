"""Tests of evaluators: the score and the explanation of each rule."""

import asyncio
from typing import Any

import pytest

from gradebox import ModelError, Score, StringThread, testing
from gradebox.evaluators import deterministic, exact_match, lm_judge

ASK = [
    {"role": "system", "content": 'You compare. {{prediction}} is no placeholder, and {"a": {"b": 1}} is none.'},
    {"role": "user", "content": "Q: {question}\nExpected: {target}\nGot: {prediction}"},
]


def thread(said: str = "4", **metadata: Any) -> StringThread:
    return StringThread([("user", "2+2?"), ("assistant", said)], metadata)


def closeness(prediction: str, target: float) -> float:
    return 1 - abs(float(prediction) - target) / target


def asked_with(score: Any, judge: Any, one: StringThread) -> tuple[Score, list[dict[str, str]]]:
    reply = {"explanation": "so it is", "score": score}
    with testing.model("small-judge", replies=[reply]) as asked:
        found = asyncio.run(judge(one))
    return found, asked[0]["messages"]


def test_a_function_gives_the_score_and_the_explanation_names_all() -> None:
    evaluator = deterministic(closeness, purpose="numeric closeness", target="answer")
    score = evaluator(thread("3", answer=4))
    assert score == 0.75
    assert score.reason == (
        "The evaluation function for numeric closeness compared the prediction '3' with the target '4', and gave the "
        "score 0.75."
    )


def test_a_target_may_be_computed_and_a_boolean_counts() -> None:
    def is_twice(prediction: str, target: int) -> bool:
        return int(prediction) == target

    evaluator = deterministic(is_twice, purpose="doubling", target=lambda thread: 2 * thread.metadata["half"])
    assert (evaluator(thread("4", half=2)), evaluator(thread("4", half=3))) == (1.0, 0.0)


@pytest.mark.parametrize(("said", "score"), [("4", 1.0), ("4 ", 0.0), ("", 0.0), ("four", 0.0)])
def test_exact_match_is_strict(said: str, score: float) -> None:
    assert exact_match("answer")(thread(said, answer="4")) == score


def test_explanations_are_bounded() -> None:
    reason = exact_match("answer")(thread("x" * 100_000, answer="y" * 100_000)).reason
    assert reason is not None and len(reason) < 2_500
    assert reason.count("(100,000 characters)") == 2


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (thread("4"), "has no 'answer'"),
        (thread("4", answer=None), "has no 'answer'"),
        (thread("4", answer=4), "can only equal a text"),
        (StringThread([("user", "q")], {"answer": "4"}), "no completion to score"),
    ],
)
def test_what_cannot_be_compared_is_no_zero(one: StringThread, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exact_match("answer")(one)


@pytest.mark.filterwarnings("error")
def test_an_async_function_is_an_error() -> None:
    async def later(*_: Any) -> float:
        return 1.0

    with pytest.raises(ValueError, match=r"eval_fn= takes .* at once"):
        deterministic(later, purpose="p", target="t")(thread("4", t="4"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'target' takes .* at once"):
        deterministic(lambda one, other: one == other, purpose="p", target=later)(thread("4"))


def test_what_is_no_evaluator_is_refused() -> None:
    with pytest.raises(TypeError, match="eval_fn="):
        deterministic("len", purpose="p", target="t")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'target' is the name"):
        deterministic(closeness, purpose="p", target=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="purpose="):
        deterministic(closeness, purpose=" ", target="t")
    worded = deterministic(lambda a, b: "good", purpose="p", target="t")  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="returned 'good', and a score is a number"):
        worded(thread("4", t=1))


@pytest.mark.parametrize(("said", "number"), [(0.25, 0.25), (7, 7.0), (True, 1.0), (False, 0.0)])
def test_a_model_says_a_number_or_a_boolean(said: Any, number: float) -> None:
    judge = lm_judge(ASK, model="small-judge", target="answer", inputs={"question": "q"})
    score, messages = asked_with(said, judge, thread("4", answer="4", q="2+2?"))
    assert (score, score.reason, score.details) == (number, "so it is", {"score": said})
    assert messages[0]["content"] == 'You compare. {prediction} is no placeholder, and {"a": {"b": 1}} is none.'
    assert messages[1]["content"].startswith("Q: 2+2?\nExpected: 4\nGot: 4\n\nAnswer with one JSON object")


def test_words_have_the_numbers_that_they_are_given() -> None:
    judge = lm_judge(
        ASK[1:], model="small-judge", target="t", inputs={"question": "q"}, scores={"good": 1, "bad": -0.5}
    )
    score, messages = asked_with("bad", judge, thread("4", t=[1, "ä"], q="?"))
    assert (score, score.details) == (-0.5, {"score": "bad"})
    assert 'Expected: [1, "ä"]' in messages[0]["content"]
    assert 'exactly one of "good", "bad"' in messages[0]["content"]


def test_what_is_filled_in_is_filled_once() -> None:
    judge = lm_judge(ASK, model="small-judge", target="t", inputs={"question": lambda thread: "{target}"})
    _, messages = asked_with(1, judge, thread("{question} {{target}}", t="secret"))
    assert messages[1]["content"].startswith("Q: {target}\nExpected: secret\nGot: {question} {{target}}\n")


@pytest.mark.parametrize("reply", ["good", '{"score": 1}', '{"score": "1", "explanation": ""}', '{"score": NaN}'])
def test_a_reply_that_is_none_is_an_error(reply: str) -> None:
    judge = lm_judge([{"role": "user", "content": "{prediction}"}], model="small-judge")
    with testing.model("small-judge", replies=[reply] * 3), pytest.raises(ModelError) as caught:
        asyncio.run(judge(thread()))
    assert (caught.value.kind, caught.value.reply) == ("invalid_reply", reply)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": {"question": "q", "target": "t"}}, "a placeholder of its own"),
        ({"inputs": {"prediction": "t"}}, "a placeholder of its own"),
        ({}, "have the placeholder {question}"),
        ({"inputs": {"question": "q"}}, "have the placeholder {target}"),
        ({"messages": [{"role": "user", "content": "{{prediction}}"}]}, "would not see"),
        ({"messages": []}, "would not see"),
        ({"messages": [{"role": "user", "content": ["{prediction}"]}]}, r"messages\[0\]"),
        ({"inputs": {"question": "q"}, "target": "t", "scores": {"good": 1}}, "at least two words"),
        ({"inputs": {"question": "q"}, "target": "t", "scores": {"good": 1, "bad": None}}, "a score is a number"),
    ],
)
def test_what_is_no_judge_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lm_judge(**{"messages": ASK, "model": "small-judge", **given})
