"""Tests of feedback by a scripted model, without a service."""

import asyncio
from itertools import product
from typing import Any

import pytest

from gradebox import ModelError, NotApplicable, Score, StringThread, testing
from gradebox.judges.feedback import MOST_TEXTS, Feedback, Proposal, differs, settings_of

SETTINGS = settings_of("polite@2", "binary_judge", "of manners", {"criteria": "It is polite"}, "")
LABELS = {"gold": 1, "wrong": "x", "huge": 10**400, "endless": 1e999}
THREAD = {"prompt": "Why?", "completion": "Because.", "metadata": LABELS}
OUTCOME = {"index": 3, "grader": "polite@2", "score": 0.5, "reason": "It is curt.", "details": {"option": "No"}}


def given(feedback: Feedback, thread: Any = THREAD, label: float | None = None) -> Score:
    metadata = {"thread": thread, "outcome": OUTCOME} | ({} if label is None else {"label": label})
    return asyncio.run(feedback(StringThread([("assistant", "")], metadata)))


def prompt_of(feedback: Feedback, **more: Any) -> str:
    asked: list[str] = []

    def reply(request: dict[str, Any]) -> dict[str, str]:
        asked.append(request["messages"][-1]["content"])
        return {"feedback": " Say more. "}

    with testing.model("m", reply):
        score = given(feedback, **more)
    assert (float(score), score.reason) == (0.5, "Say more.")
    (prompt,) = asked
    return prompt


def test_a_model_sees_the_grader_the_thread_and_what_was_said_of_it() -> None:
    prompt = prompt_of(Feedback("m", SETTINGS, instructions="Keep it short."))
    for part in (
        'polite@2 (binary judge)\n\nof manners\n\n{"criteria": "It is polite"}', "[user]\nWhy?", "Because.",
        "It is curt.", '{"option": "No"}', "The score is 0.5.", "# What the one who asks says\n\nKeep it short.",
    ):  # fmt: skip
        assert part in prompt
    assert "label" not in prompt
    assert "[begin grader " in prompt and "[begin judge " not in prompt
    of_judge = prompt_of(Feedback("m", SETTINGS, "judge"), label=1.0)
    assert "By its label it should be 1." in of_judge and "[begin judge " in of_judge


def test_a_model_decides_whether_a_judge_was_right_if_nothing_is_said_of_it() -> None:
    assert "See first whether it decided rightly" in prompt_of(Feedback("m", SETTINGS, "judge"))
    for said in (
        prompt_of(Feedback("m", SETTINGS, "judge"), label=1.0),
        prompt_of(Feedback("m", SETTINGS, "judge", instructions="Too strict.")),
    ):
        assert "is doubted, as it says below" in said and "See first" not in said


def test_a_score_and_a_label_that_differ_read_otherwise() -> None:
    prompt = prompt_of(Feedback("m", SETTINGS, "judge"), label=0.50000001)
    assert "The score is 0.5. By its label it should be 0.50000001." in prompt


def test_a_label_may_stand_in_the_thread() -> None:
    feedback = Feedback("m", SETTINGS, "judge", label="metadata.gold", only_wrong=True)
    assert "By its label it should be 1." in prompt_of(feedback)
    for field, only_wrong in product(("missing", "wrong", "huge", "endless", "gold.deeper"), (True, False)):
        with testing.model("m", []), pytest.raises(NotApplicable, match="no label"):
            given(Feedback("m", SETTINGS, "judge", label=f"metadata.{field}", only_wrong=only_wrong))
    with testing.model("m", []), pytest.raises(NotApplicable, match="bears the score out"):
        given(Feedback("m", SETTINGS, "judge", label="metadata.gold", threshold=0.5, only_wrong=True))


def test_where_there_is_nothing_to_say_that_is_told() -> None:
    feedback = Feedback("m", SETTINGS)
    with testing.model("m", [{"feedback": "  "}]), pytest.raises(NotApplicable, match="nothing to change") as told:
        given(feedback)
    assert told.value.details == {"index": 3, "grader": "polite@2", "of": "completion"}
    with testing.model("m", []), pytest.raises(NotApplicable, match="no completion"):
        given(feedback, {"messages": [{"role": "user", "content": "?"}], "unknown": 1})
    with testing.model("m", []), pytest.raises(ValueError, match="shorten the thread"):
        given(feedback, None)
    with testing.model("m", ["prose"] * 3), pytest.raises(ModelError):
        given(feedback)
    with pytest.raises(ValueError, match="of="):
        Feedback("m", SETTINGS, "grader")  # type: ignore[arg-type]


def test_scores_differ_from_labels_by_value_or_by_what_they_decide() -> None:
    assert differs(0.9, 1.0, None) and not differs(1.0, 1, None)
    assert not differs(0.9, 1.0, 0.5) and differs(0.4, 1.0, 0.5) and differs(0.5, 0.4, 0.5)


def test_settings_are_those_of_a_kind_or_the_source_and_are_cut() -> None:
    assert settings_of("short@1", "function", "", None, "async def grade") == "short@1 (function)\n\nasync def grade"
    assert settings_of("long@1", "function", "", None, "x" * 40_000).endswith("more characters)")


def test_feedback_is_brought_together() -> None:
    asked: list[str] = []

    def reply(request: dict[str, Any]) -> dict[str, str]:
        asked.append(request["messages"][-1]["content"])
        return {"reasoning": "both say so", "proposal": "It is polite and brief"}

    metadata = {"settings": SETTINGS, "feedback": [f"text {n}." for n in range(MOST_TEXTS + 1)], "instructions": "Now."}
    with testing.model("m", reply):
        score = asyncio.run(Proposal("m")(StringThread([("assistant", "")], metadata)))
    assert (score.reason, score.details) == ("both say so", {"proposal": "It is polite and brief"})
    assert "[begin change 50 " in asked[0] and "text 50." not in asked[0]
    assert "Now." in asked[0] and "of manners" in asked[0]
