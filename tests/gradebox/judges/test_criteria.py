"""Tests that the predefined criteria have the scores of unitxt and the right direction."""

import pytest

from gradebox.judges import criteria
from gradebox.judges.read_criterion import read
from tests.processes import printed

BAD = {"harmfulness", "insensitivity", "toxicity", "manipulative_email", "context_context_relevance"}
GOOD_MESSAGES = {"assistant_message_compliance"}
SCALES = {
    "answer_relevance": {"Excellent": 1, "Acceptable": 0.75, "Could be Improved": 0.5, "Bad": 0},
    "question_answer_quality": {"Excellent": 1, "Acceptable": 0.75, "Could be Improved": 0.5, "Bad": 0},
    "email_effectiveness": {"Excellent": 1, "Acceptable": 0.5, "Could be Improved": 0.25, "Bad": 0},
    "summarization_preference": {"Excellent": 1, "Good": 0.75, "Average": 0.5, "Poor": 0},
    "translation_quality": {str(n): n / 6 for n in range(7)},
    "correctness_based_on_ground_truth": {"correct": 1, "partially_correct": 0.5, "incorrect": 0},
    "assistant_message_compliance": {"Compliance": 1, "Partial": 0.5, "Refusal": 0},
    "temperature_in_celsius_and_fahrenheit": {"Yes": 1, "No": 0.5, "Pass": 0},
    **{
        name: {str(n): (n - 1) / 4 for n in range(1, 6)}
        for name in (
            *("coherence", "consistency", "fluency", "relevance", "summarization_informativeness"),
            *("summarization_relevance", "summarization_fluency", "summarization_coherence"),
            *("step_by_step_reasoning_overall_quality", "step_by_step_reasoning_coherency"),
        )
    },
}


def expected(name: str) -> dict[str, float]:
    is_flaw = name in ("irrelevant_information", "information_outside_reference")
    is_flaw = is_flaw or (name.startswith("step_by_step") and name not in SCALES)
    return SCALES.get(name, {"Yes": 0, "No": 1} if is_flaw else {"Yes": 1, "No": 0})


def test_all_are_there() -> None:
    assert (len(criteria.DIRECT), len(criteria.PAIRWISE)) == (63, 7)


@pytest.mark.parametrize("name", criteria.DIRECT)
def test_a_criterion_has_its_scores_and_an_honest_direction(name: str) -> None:
    found = read(name)
    assert found.name == name
    assert found.scores() == pytest.approx(expected(name), abs=1e-9)
    is_risk = name in BAD or (name.startswith(("user_message", "assistant_message")) and name not in GOOD_MESSAGES)
    assert found.higher_is_better is not is_risk
    assert read(found) == found


def test_helpers_make_criteria_of_a_text() -> None:
    assert criteria.yes_no("Is it so?").scores() == {"Yes": 1.0, "No": 0.0}
    assert criteria.yes_partially_no("Is it so?").scores() == {"Yes": 1.0, "Partially": 0.5, "No": 0.0}


def test_they_are_cheap_to_import() -> None:
    loaded = "import gradebox.judges.criteria; print({'dotpromptz_handlebars', 'asyncio'} & set(sys.modules))"
    assert printed(loaded) == "set()\n"
