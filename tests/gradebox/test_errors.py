"""Tests that exceptions reach another process, as from a pool of workers, with all that they say."""

import copy
import pickle

import pytest

from gradebox import errors
from gradebox.errors import GradeboxError
from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Check, Problem, Report
from tests.gradebox.making import batch

PROBLEM = Problem(type="urn:gradebox:problem:not-found", title="Not found", status=404, detail="no", request_id="r")
RAISED = [
    errors.ScoreMissing(Outcome(2, "g@1", None, 1.0, error=OutcomeError("exception", "no answer"))),
    errors.NotFound(PROBLEM),
    errors.BatchFailed(batch(state="failed")),
    errors.WaitTimeout(batch(), 3.0),
    errors.ValidationError(
        Report(valid=False, checks=[Check(name="syntax", passed=False, message="no Python", duration_ms=1.0)])
    ),
    errors.SourceError("a lambda"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: GradeboxError) -> None:
    error.add_note("what to do")
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert vars(found) == vars(error)
