"""Receives a request for feedback on the outcomes of a batch, and creates the batch that produces it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request

from api.http.problems import ProblemError, invalid
from api.intake import bodies
from api.intake.batch_upload import Arrival, BudgetOfBatch, refuse_unlimited, terms_of
from api.intake.grader_of_batch import label_of, label_source_of, refuse_feedback
from api.services import Services
from gradebox.combination import COMBINED
from gradebox.schemas import ENDED, Batch, FeedbackOf, FeedbackOn, FeedbackTarget, Replies
from storage.batch_plan import AskTerms, Wanted
from storage.batches import feedback_grader
from storage.errors import Conflict
from storage.outcomes import feedback_lines
from storage.statistics.outcome_tally import PASS
from storage.store import Store
from storage.uploads import Upload

NOTHING_TO_SAY = "nothing-to-say"
INSTRUCTIONS_CHARACTERS = 4000
LABEL_CHARACTERS = 1000  # of what names a grader or a field: with the instructions, it has to fit into a source
_BYTES = 2 * bodies.MIB  # for labels, which take about eleven times as much memory when parsed


class NewFeedback(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Feedback on the outcomes of a batch. `labels` are one of: scores by thread id, or by index for threads without an
    id; another grader of the batch, or of scores recorded in it; a field such as `metadata.label`.
    """

    model: str
    on: FeedbackOn = "failures"
    of: FeedbackTarget = "completion"
    grader: str | None = None
    threshold: float | None = None
    labels: dict[str, float] | Annotated[str, msgspec.Meta(max_length=LABEL_CHARACTERS)] | None = None
    instructions: Annotated[str, msgspec.Meta(min_length=1, max_length=INSTRUCTIONS_CHARACTERS)] | None = None
    budget: BudgetOfBatch | None = None
    replies: Replies = "kept"


async def take(arrival: Arrival, request: Request, batch_id: str) -> Batch:
    """Creates a batch of feedback.

    Raises ProblemError, and what Upload raises. Nothing is left in the spool then.
    """
    body = await bodies.read_as_json(request, _BYTES, "labels in the metadata of the threads have no such limit")
    new = await bodies.worked_on(len(body), bodies.decode, body, NewFeedback)
    services = arrival.services
    if (before := await run_sync(services.store.acceptance.answered, arrival.repeat.once)) is not None:
        return before
    batch, of = await services.read(request, _settled, services, arrival.project, batch_id, new)
    labels = new.labels if isinstance(new.labels, dict) else {}
    terms = terms_of(new.budget, new.replies)
    begin = partial(_begin, arrival, batch, of, labels, terms)
    return await arrival.copy(request, batch_id, begin, terms, of)


def _settled(services: Services, project: str, batch_id: str, new: NewFeedback) -> tuple[Batch, FeedbackOf]:
    """Validates the request. Returns the batch, and the resolved parameters."""
    store = services.store
    batch = store.batches.get(project, batch_id)
    if batch.state not in ENDED:
        raise Conflict(f"batch {batch_id} is {batch.state}: feedback is given on its outcomes once it is over")
    refuse_feedback(batch)
    grader = label_of(batch, new.grader)
    if grader == COMBINED:
        raise invalid(f"feedback is on the outcomes of one grader: name one of {', '.join(map(str, batch.graders))}")
    key, _, number = grader.partition("@")
    if store.graders.version(project, key, int(number)).groups:
        raise invalid(f"{grader} takes groups of threads, and feedback is on the outcomes of single threads")
    store.models.get(project, new.model)
    _check(new)
    of = FeedbackOf(
        batch=batch.id,
        grader=grader,
        model=new.model,
        on=new.on,
        of=new.of,
        threshold=PASS if _is_by_score(new) and new.threshold is None else new.threshold,
        labels=_labels(batch, grader, new.labels),
        instructions=new.instructions,
    )
    return batch, of


def _is_by_score(new: NewFeedback) -> bool:
    """Whether an outcome is a failure by its score alone."""
    return new.on == "failures" and new.labels is None


def _check(new: NewFeedback) -> None:
    if new.of == "completion" and new.labels is not None:
        raise invalid("labels show where a judge is wrong, but this is feedback on completions: set `of` to `judge`")
    if new.on == "all" and new.threshold is not None:
        raise invalid("a threshold defines failures, but this is feedback on all outcomes: leave it out")


def _labels(batch: Batch, grader: str, labels: dict[str, float] | str | None) -> str | None:
    if labels is None or isinstance(labels, dict):
        return None if labels is None else feedback_grader.GIVEN
    return label_source_of(batch, labels, grader)


def _begin(
    arrival: Arrival, batch: Batch, of: FeedbackOf, labels: Mapping[str, float], terms: AskTerms
) -> tuple[Iterator[bytes], list[Wanted], Upload]:
    store = arrival.services.store
    store.backlog.check(arrival.project)
    wanted = [feedback_grader.wanted(store.graders, arrival.project, of)]
    refuse_unlimited(arrival.services, arrival.project, wanted, terms.budget)
    read = feedback_lines.read(store.batches, batch, of, labels, arrival.services.line_bytes)
    return _whole(store, of, read), wanted, arrival.upload(wanted)


def _whole(store: Store, of: FeedbackOf, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the blocks. Raises Conflict if outcomes changed meanwhile, and ProblemError if all blocks are empty."""
    before = store.batches.settled(of.batch)
    is_empty = True
    for block in blocks:
        is_empty = is_empty and not block
        yield block
    if before is None or before != store.batches.settled(of.batch):
        raise Conflict(f"outcomes of batch {of.batch} are scored again: feedback is given once it is over")
    if is_empty:
        what = (
            f"less than {of.threshold:g}"
            if of.threshold is not None and of.labels is None
            else "different from its label"
        )
        none = (
            f"no score of {of.grader} is {what}"
            if of.on == "failures"
            else f"{of.grader} has no score to give feedback on"
        )
        raise ProblemError(409, NOTHING_TO_SAY, f"batch {of.batch}: {none}. Nothing was asked")
