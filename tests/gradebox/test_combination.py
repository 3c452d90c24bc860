"""Tests of one outcome from those of several graders. Those of rewards are in `client/test_combined_reward.py`."""

from gradebox.combination import combined
from gradebox.outcome import CompletionScore, Outcome, OutcomeError, completion_scores, with_completion_scores


def test_of_a_group_each_completion_is_combined() -> None:
    failed = OutcomeError("exception", "no")
    a = [CompletionScore(1.0), CompletionScore(2.0), CompletionScore(4.0)]
    b = [CompletionScore(10.0), CompletionScore(None, error=failed), CompletionScore(None, not_applicable="none")]
    parts = [
        with_completion_scores(Outcome(3, "a@1", 7 / 3, 0.1, "g"), a),
        with_completion_scores(Outcome(3, "b@2", None, 0.2, "g", error=failed), b),
    ]
    whole = combined("whole", [1.0, 0.5], parts)
    assert (whole.index, whole.id, whole.grader, whole.score, whole.run_ms) == (3, "g", "whole", None, 0.3)
    assert whole.error == OutcomeError("exception", "b@2: no")
    assert completion_scores(whole) == [
        CompletionScore(6.0),
        CompletionScore(None, error=OutcomeError("exception", "b@2: no")),
        CompletionScore(None, not_applicable="b@2: none"),
    ]
    assert combined("whole", [1.0, 0.5], [parts[0], Outcome(3, "b@2", None, 0.1, error=failed)]).scores is None


def test_an_error_is_retryable_if_a_retry_may_give_each_missing_score() -> None:
    scored = Outcome(0, "a@1", 1.0, 0.1)
    away = Outcome(0, "b@1", None, 0.1, error=OutcomeError("model", "away", True, "unreachable"))
    passed_over = Outcome(0, "c@1", None, 0.1, not_applicable="no documents")
    broken = Outcome(0, "d@1", None, 0.1, error=OutcomeError("crash", "it ended"))
    for others, kind, retryable in (
        ([scored, away], "model", True),
        ([scored, away, passed_over], "model", False),
        ([passed_over, away], "model", False),
        ([broken, away], "crash", False),
    ):
        whole = combined("whole", [1.0] * len(others), others)
        assert whole.error is not None and whole.not_applicable is None
        assert (whole.error.kind, whole.error.retryable) == (kind, retryable)
        assert whole.error.cause == ("unreachable" if kind == "model" else None)
    whole = combined("whole", [1.0, 1.0], [scored, passed_over])
    assert (whole.score, whole.error, whole.not_applicable) == (None, None, "c@1: no documents")
