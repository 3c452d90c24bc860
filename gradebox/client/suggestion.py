"""What to change in a judge, and the request for it."""

from collections.abc import Sequence
from typing import NamedTuple

from gradebox.client import calls
from gradebox.client.call import Call
from gradebox.errors import GradeboxError
from gradebox.frame import Outcomes
from gradebox.judges.feedback import MOST_TEXTS, settings_of
from gradebox.outcome import Outcome
from gradebox.schemas import Batch, BatchGrader, GraderRecord, Report, Version

_SOURCE = """\
from gradebox import StringThread
from gradebox.judges.feedback import Proposal

proposal = Proposal({model!r})


async def grade(thread: StringThread) -> float:
    return await proposal(thread)
"""


class Suggestion(NamedTuple):
    """What a model would change in a judge. Nothing was changed.

    Attributes:
        feedback: an outcome for each completion whose score its label does not bear out: what to change is its reason.
        proposal: the new text of the judge that takes all of it up; None where there was nothing to say.
        reasoning: why it is so.
        batch: the id of the batch that gave the feedback; None where nothing was asked.
    """

    feedback: Outcomes
    proposal: str | None
    reasoning: str | None
    batch: str | None


NOTHING = Suggestion(Outcomes(), None, None, None)


def judge_of(batch: Batch, key: str) -> BatchGrader:
    """The version of the judge that scored the batch. Raises ValueError where none did, or several."""
    name, version = calls.split_version(key)
    found = [one for one in batch.graders if one.key == name and version in (None, one.version)]
    if len(found) != 1:
        raise ValueError(
            f"batch {batch.id} was scored by {', '.join(map(str, batch.graders))}: name one of these judges"
        )
    return found[0]


def bring_together(
    project: str, model: str, judge: GraderRecord, version: Version, said: Sequence[str], instructions: str | None
) -> Call[Report]:
    """Asks a model for one text that takes up several of feedback: as the test run of a grader that is not kept."""
    label = f"{judge.key}@{version.number}"
    settings = settings_of(label, version.kind, judge.description, version.config, version.source)
    metadata = {"settings": settings, "feedback": list(said[:MOST_TEXTS]), "instructions": instructions}
    return calls.validate(project, _SOURCE.format(model=model), [{"completion": "", "metadata": metadata}])


def suggestion(feedback: Sequence[Outcome], report: Report, batch: str) -> Suggestion:
    """What came of it. Raises GradeboxError where the model gave no proposal."""
    outcome = report.outcomes[0] if report.valid and report.outcomes else None
    if outcome is None or outcome.details is None:
        why = report.failed.message if report.failed else "there is no outcome"
        raise GradeboxError(f"the feedback of batch {batch} stands, and was not brought together: {why}")
    return Suggestion(Outcomes(feedback), outcome.details["proposal"], outcome.reason, batch)
