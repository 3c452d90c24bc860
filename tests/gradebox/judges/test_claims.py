"""Tests of faithfulness and both relevancies: the score is the share of positive verdicts."""

import asyncio
import json
from typing import Any

import pytest

from gradebox import ModelError, NotApplicable, Score, StringThread, testing
from gradebox.judges import AnswerRelevancy, ContextRelevancy, Faithfulness
from gradebox.judges.documents import context_of, documents_of
from gradebox.score import DETAILS_BYTES
from sandbox.guest.child.encode_outcome import read_details

PARIS = "The capital of France is Paris. It has 2 million people."
THREAD = StringThread([("document", PARIS), ("user", "What is the capital?"), ("assistant", "Paris, with 9 million.")])


def run(judge: Any, replies: Any, thread: StringThread = THREAD) -> tuple[Score, list[dict[str, Any]]]:
    with testing.model("m", replies) as asked:
        return asyncio.run(judge(thread)), asked


def verdicts(*supported: bool) -> dict[str, Any]:
    return {str(n): {"reason": f"because {n}", "supported": one} for n, one in enumerate(supported, 1)}


def claims(number: int) -> dict[str, Any]:
    return {"claims": [f"claim {n}" for n in range(1, number + 1)]}


def prompt(request: dict[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


def test_faithfulness_is_the_share_of_claims_that_are_supported() -> None:
    found, (first, second) = run(Faithfulness("m"), [claims(2), verdicts(True, False)])
    assert (found, found.reason) == (0.5, "1 of 2 claims are supported by the context")
    assert found.details == {
        "claims": [
            {"text": "claim 1", "supported": True, "reason": "because 1"},
            {"text": "claim 2", "supported": False, "reason": "because 2"},
        ]
    }
    assert "9 million" in prompt(first)
    assert PARIS not in prompt(first), "claims are what the completion says, whatever the context is"
    assert PARIS in prompt(second)
    assert abs(run(Faithfulness("m"), [claims(3), verdicts(True, True, False)])[0] - 2 / 3) < 1e-9


@pytest.mark.parametrize("given", [verdicts(True), verdicts(True, True, True), {"1": "yes", "2": "no"}, [True, True]])
def test_as_many_verdicts_as_claims_or_no_score(given: Any) -> None:
    text = json.dumps(given)
    assert run(Faithfulness("m"), [claims(2), text, text, verdicts(True, True)])[0] == 1.0
    with pytest.raises(ModelError) as raised:
        run(Faithfulness("m"), [claims(2), text, text, text])
    assert (raised.value.kind, raised.value.reply) == ("invalid_reply", text)


def test_no_claim_and_no_context_are_no_score() -> None:
    with pytest.raises(NotApplicable, match="no claim"):
        run(Faithfulness("m"), [{"claims": []}])
    with pytest.raises(NotApplicable, match="no claim"):
        run(Faithfulness("m"), [], StringThread([("document", "d"), ("user", "q"), ("assistant", " ")]))
    with pytest.raises(NotApplicable, match="no context"):
        run(Faithfulness("m"), [], StringThread([("system", "s"), ("user", "q"), ("assistant", "a")]))
    with pytest.raises(ValueError, match="no completion to score"):
        run(Faithfulness("m"), [], StringThread([("user", "q")]))


def test_more_claims_than_can_be_checked_are_an_error() -> None:
    with pytest.raises(ModelError, match="at most 100"):
        run(Faithfulness("m"), [claims(101)] * 3)
    found, _ = run(Faithfulness("m"), [claims(100), verdicts(*[True] * 100)])
    assert found == 1.0
    assert found.details is not None and len(found.details["claims"]) == 100


def test_context_is_what_stands_before_the_last_question_and_every_document() -> None:
    turns = [("system", "s"), ("user", "first"), ("assistant", "yes"), ("user", "last")]
    turns += [("document", "found later"), ("assistant", "a")]
    thread = StringThread(turns, {"documents": ["one", {"content": "two"}], "own": "three"})
    assert context_of(thread, None) == {
        "conversation": "[user]\nfirst\n\n[assistant]\nyes",
        "document 1": "found later",
        "document 2": "one",
        "document 3": "two",
    }
    assert context_of(thread, "metadata.own") == {"document 1": "three"}


@pytest.mark.parametrize(
    ("metadata", "where", "documents"),
    [
        ({}, None, []),
        ({"documents": []}, None, []),
        ({"documents": ["a", " ", {"text": "b"}, {"page_content": "c"}]}, None, ["a", "b", "c"]),
        ({"documents": "a"}, None, ["a"]),
        ({"rag": {"found": ["x"]}}, "metadata.rag.found", ["x"]),
        ({"rag": {"found": ["x"]}}, "rag.found", ["x"]),
    ],
)
def test_documents_stand_in_metadata(metadata: dict[str, Any], where: str | None, documents: list[str]) -> None:
    assert documents_of(StringThread([("assistant", "a")], metadata), where) == documents


@pytest.mark.parametrize(
    ("given", "told"), [([1], "document 1"), ([{"id": 3}], "a document is a text"), (7, "in a list")]
)
def test_what_are_no_documents_is_said(given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        documents_of(StringThread([("assistant", "a")], {"documents": given}), None)
    with pytest.raises(ValueError, match="no field 'found'"):
        documents_of(StringThread([("assistant", "a")], {}), "found")


def test_context_relevancy_is_the_share_of_documents_that_help() -> None:
    thread = StringThread(THREAD.get_turns(), {"documents": ["On Spain", "On Italy"]})

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        return {"reason": "so", "relevant": PARIS in prompt(request)}

    found, asked = run(ContextRelevancy("m"), reply, thread)
    assert abs(found - 1 / 3) < 1e-9
    assert found.reason == "1 of 3 documents help with the question"
    assert found.details is not None and [one["relevant"] for one in found.details["documents"]] == [True, False, False]
    assert len(asked) == 3, "one ask for each"
    with pytest.raises(NotApplicable, match="no documents"):
        run(ContextRelevancy("m"), [], StringThread([("user", "q"), ("assistant", "a")]))
    with pytest.raises(ValueError, match="no question"):
        run(ContextRelevancy("m"), [], StringThread([("document", "d"), ("assistant", "a")]))
    with pytest.raises(ValueError, match="65 documents, and 64"):
        run(ContextRelevancy("m"), [], StringThread([("user", "q"), ("assistant", "a")], {"documents": ["d"] * 65}))
    with pytest.raises(ModelError):
        run(ContextRelevancy("m"), ['{"reason": "x", "relevant": 1}'] * 3)


def test_details_with_halves_of_surrogate_pairs_fit_into_an_outcome() -> None:
    thread = StringThread([("document", "\ud83d" * 3_900), ("user", "What is it?"), ("assistant", "4")])
    found, _ = run(ContextRelevancy("m"), [{"reason": "r", "relevant": True}], thread)
    assert read_details(found, DETAILS_BYTES)


def test_answer_relevancy_is_the_share_of_statements_that_help() -> None:
    listed = [{"text": f"s{n}", "reason": "so", "relevant": n != 2} for n in range(3)]
    found, asked = run(AnswerRelevancy("m"), [{"statements": listed}])
    assert abs(found - 2 / 3) < 1e-9
    assert found.details == {"statements": listed}
    assert len(asked) == 1
    empty = '{"statements": []}'
    with pytest.raises(ModelError) as raised:
        run(AnswerRelevancy("m"), [empty] * 3)
    assert raised.value.kind == "invalid_reply", "no statement is no 0.0"
    with pytest.raises(ValueError, match="completion is empty"):
        run(AnswerRelevancy("m"), [], StringThread([("user", "q"), ("assistant", "")]))
    with pytest.raises(ValueError, match="no question"):
        run(AnswerRelevancy("m"), [], StringThread([("assistant", "a")]))


@pytest.mark.parametrize("where", ["", 3])
def test_a_place_of_documents_is_the_name_of_a_field(where: Any) -> None:
    with pytest.raises(ValueError, match="documents="):
        Faithfulness("m", documents=where)
    with pytest.raises(ValueError, match="documents="):
        ContextRelevancy("m", documents=where)
