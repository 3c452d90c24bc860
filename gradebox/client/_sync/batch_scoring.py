# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""Scores threads in a batch while the caller waits, as a training step does."""

import logging
from collections.abc import Iterable
from contextlib import suppress

from gradebox.client._sync.batches import Batches, BatchHandle
from gradebox.client.batch_watch import UNSEEN_S, waits_for
from gradebox.client.grader_names import GraderChoice, weights_of
from gradebox.client.outcomes import checked
from gradebox.client.thread_line import Thread
from gradebox.client.threads import each_of
from gradebox.client.unfinished_batches import cancelled_at_exit
from gradebox.errors import BatchFailed, GradeboxError
from gradebox.frame import Outcomes
from gradebox.schemas import ENDED

_log = logging.getLogger("gradebox")


def score_by_workers(batches: Batches, graders: GraderChoice, threads: Iterable[Thread]) -> list[Outcomes]:
    """Has a batch score the threads. Returns the outcomes of each grader, in the order of the threads.

    The batch is deleted once its outcomes are read, so that a training does not fill the project's storage. It is
    cancelled if the caller is, or if the process ends: nobody would read its outcomes.

    Raises:
        BatchFailed: the batch was cancelled, or failed.
        GradeboxError: the service refused the batch, or did not answer.
    """
    rows = list(each_of(threads))
    if not rows:  # a batch has threads
        return [Outcomes() for _ in weights_of(graders)]
    batch = batches.create(graders, rows)
    try:
        with cancelled_at_exit(batch.id, batch.cancel):
            _await_end(batch)
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C, or a cancelled task
            _log.warning("batch %s is being cancelled; a second interrupt leaves it running", batch.id)
            with suppress(GradeboxError):  # in its place, it would hide the interrupt
                batch.cancel()
        raise
    found = [outcome for outcome in batch.outcomes()]
    own = checked(found, batch.status)
    with suppress(GradeboxError):  # it expires anyway
        batch.delete()
    labels = [str(grader) for grader in batch.status.graders]
    return [Outcomes(outcome for outcome in own if outcome.grader == label) for label in labels]


def _await_end(batch: BatchHandle) -> None:
    """Waits for the end of a batch, and logs why it does not go on."""
    told = ""
    while batch.status.state not in ENDED:
        reason = waits_for(batch.status)
        if reason and reason != told:
            _log.warning("batch %s: %s", batch.id, reason)
        told = reason
        batch.refresh(UNSEEN_S)
    if batch.status.state != "finished":
        raise BatchFailed(batch.status)
