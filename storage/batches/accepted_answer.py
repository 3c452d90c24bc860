"""The stored form of the response to an accepted batch, for repeated requests: a few bytes from which the whole
response is rebuilt.
"""

from datetime import datetime

import msgspec

from gradebox.schemas import Batch, BatchBudget, BatchGrader, FeedbackOf
from storage.statistics.outcome_tally import Tally
from storage.statistics.summary import summarise


class _Accepted(msgspec.Struct, array_like=True):
    id: str
    project: str  # empty: a repeated request names the same project. Earlier gradebox versions stored it
    graders: list[tuple[str, int, float]]
    threads: int
    created_by: str | None
    created_at: datetime
    feedback_of: str | None = None
    budget: str | None = None
    keep_replies: bool = True
    weighted: bool = False


def pack(batch: Batch) -> bytes:
    """Packs a batch that is being accepted."""
    graders = [(one.key, one.version, one.weight) for one in batch.graders]
    of = None if batch.feedback_of is None else batch.feedback_of.model_dump_json()
    budget = None if batch.budget is None else batch.budget.model_dump_json()
    made = batch.created_by, batch.created_at
    keep_replies = batch.replies == "kept"
    accepted = _Accepted(batch.id, "", graders, batch.threads, *made, of, budget, keep_replies, batch.weighted)
    return msgspec.msgpack.encode(accepted)


def read(answer: bytes, project: str) -> Batch:
    """The batch as it was when it was accepted."""
    if answer.startswith(b"{"):  # stored by an earlier gradebox: the whole batch as JSON
        return Batch.model_validate_json(answer)
    found = msgspec.msgpack.decode(answer, type=_Accepted)
    return Batch(
        id=found.id,
        project=project,
        state="queued",
        graders=[BatchGrader(key=key, version=version, weight=weight) for key, version, weight in found.graders],
        threads=found.threads,
        total=found.threads * len(found.graders),
        done=0,
        scored=0,
        errors={},
        created_by=found.created_by,
        created_at=found.created_at,
        budget=None if found.budget is None else BatchBudget.model_validate_json(found.budget),
        replies="kept" if found.keep_replies else "new",
        feedback_of=None if found.feedback_of is None else FeedbackOf.model_validate_json(found.feedback_of),
        weighted=found.weighted,
        summary=[summarise(f"{key}@{version}", weight, Tally()) for key, version, weight in found.graders],
    )
