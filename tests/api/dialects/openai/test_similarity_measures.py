from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.dialects.openai.similarity_measures import MEASURES

ASCII = st.text(st.characters(max_codepoint=127), max_size=40) | st.text("aB1_ \n-.", max_size=40)


def test_equal_texts_score_1_and_strangers_0() -> None:
    text = "the quick brown fox jumps over the lazy dog today"
    for metric, measure in MEASURES.items():
        assert measure(text, text) == pytest.approx(1.0, abs=0.01), metric
        assert measure("1234", text) == pytest.approx(0.0, abs=0.01), metric


def test_a_text_that_is_alike_scores_between() -> None:
    text, reference = "the cat sat on the mat today", "The cat was sitting on the mat"
    assert MEASURES["rouge_1"](text, reference) == pytest.approx(5 / 7)
    assert 0.1 < MEASURES["bleu"](text, reference) < 0.5


@pytest.mark.parametrize("metric", ["fuzzy_match", "bleu", "gleu", "rouge_1", "rouge_l"])
def test_texts_need_not_be_english(metric: str) -> None:
    assert MEASURES[metric]("Кот сидит на окне", "Кот сидит на окне") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "reference", "score"),
    [
        ("मेरा", "मारो", 0.0),
        ("दिन", "दाना", 0.0),
        ("मेरा दिन", "मेरा, दाना", 0.5),
        ("שָׁלוֹם", "שֶׁלָּהֶם", 0.0),
        ("cafe\u0301 noir", "cafe noir", 0.5),
        ("❤\ufe0f 4", "❤\ufe0f 5", 0.0),  # a sign with a mark is no word, and neither is the mark
        ("Кот сидит", "кот_сидит", 1.0),
    ],
)
def test_marks_are_part_of_their_words(text: str, reference: str, score: float) -> None:
    assert MEASURES["rouge_1"](text, reference) == score


@pytest.fixture(scope="module")
def rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imports SciPy, which would take all test processes two seconds

    return RougeScorer(["rouge1", "rouge2", "rougeL"])


@given(ASCII, ASCII)
def test_words_of_ascii_are_those_of_rouge_score(rouge: Any, text: str, reference: str) -> None:
    expected = {name: score.fmeasure for name, score in rouge.score(reference, text).items()}
    assert {name: MEASURES[name.replace("rouge", "rouge_").lower()](text, reference) for name in expected} == expected
