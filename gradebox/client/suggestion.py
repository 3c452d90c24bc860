"""The suggestion of an improved judge, and the request for it."""

from collections.abc import Sequence
from typing import NamedTuple

from gradebox.client import grader_names
from gradebox.client.calls import grader_calls
from gradebox.client.calls.call import Call
from gradebox.errors import GradeboxError
from gradebox.frame import Outcomes
from gradebox.judges.feedback import MOST_TEXTS, settings_of
from gradebox.outcome import Outcome, details_of
from gradebox.schemas import Batch, BatchGrader, GraderRecord, Report, Version

_SOURCE = """\
from gradebox import StringThread
from gradebox.judges.feedback import Proposal

proposal = Proposal({model!r})


async def grade(thread: StringThread) -> float:
    return await proposal(thread)
"""


class Suggestion(NamedTuple):
    """The changes to a judge that a model suggests. The judge is unchanged.

    Attributes:
        feedback: an outcome for each completion whose score differs from its label; its reason is the feedback.
        proposal: the new text of the judge, based on all the feedback; None if there was no feedback.
        reasoning: the model's reasons for the proposal.
        batch: the id of the batch of feedback; None if no feedback was requested.
        errors: how many completions got no feedback, because the model failed.
    """

    feedback: Outcomes
    proposal: str | None
    reasoning: str | None
    batch: str | None
    errors: int = 0


NOTHING = Suggestion(Outcomes(), None, None, None)


def judge_of(batch: Batch, key: str) -> BatchGrader:
    """The version of the judge that scored the batch. Raises ValueError if no version or several versions did."""
    name, version = grader_names.split_version(key)
    found = [one for one in batch.graders if one.key == name and version in (None, one.version)]
    if len(found) != 1:
        raise ValueError(
            f"batch {batch.id} was scored by {', '.join(map(str, batch.graders))}: name one of these judges"
        )
    return found[0]


def bring_together(
    project: str, model: str, judge: GraderRecord, version: Version, said: Sequence[str], instructions: str | None
) -> Call[Report]:
    """Asks a model for one proposal from several texts of feedback, by the test run of a grader that is not saved."""
    label = f"{judge.key}@{version.number}"
    settings = settings_of(label, version.kind, judge.description, version.config, version.source)
    metadata = {"settings": settings, "feedback": list(said[:MOST_TEXTS]), "instructions": instructions}
    return grader_calls.validate(project, _SOURCE.format(model=model), [{"completion": "", "metadata": metadata}])


def with_feedback(outcomes: Sequence[Outcome], batch: str) -> list[Outcome]:
    """The outcomes of a batch of feedback that have some. Raises GradeboxError if the model failed wherever asked."""
    said = [outcome for outcome in outcomes if outcome.reason and outcome.score is not None]
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if failed and not said:
        raise GradeboxError(
            f"the model gave no feedback: {len(failed)} outcomes of batch {batch} are errors, the first: "
            f"{failed[0].message}"
        )
    return said


def suggestion(feedback: Sequence[Outcome], report: Report, batch: Batch) -> Suggestion:
    """The suggestion from the report of that test run. Raises GradeboxError if the model gave no proposal."""
    outcome = report.outcomes[0] if report.valid and report.outcomes else None
    details = None if outcome is None else details_of(outcome)
    if outcome is None or details is None:
        why = report.failed.message if report.failed else "there is no outcome"
        raise GradeboxError(f"the feedback of batch {batch.id} stands, and was not brought together: {why}")
    errors = sum(batch.errors.values())
    return Suggestion(Outcomes(feedback), details["proposal"], outcome.reason, batch.id, errors)
