"""Scores threads in a batch while the caller waits, as a training step does."""

import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from math import inf

from gradebox.client._async.batch_handle import AsyncBatchHandle
from gradebox.client._async.batches import AsyncBatches
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.batch_watch import UNSEEN_S, note_goes_on, waits_for
from gradebox.client.calls import batch_calls
from gradebox.client.grader_names import GraderChoice, weights_of
from gradebox.client.thread_line import Thread
from gradebox.client.threads import each_of
from gradebox.client.unfinished_batches import cancelled_at_exit
from gradebox.errors import BatchFailed, ClientClosed, ConnectionFailed, GradeboxError
from gradebox.frame import Outcomes
from gradebox.schemas import ENDED
from gradebox.terminal_text import plain

_log = logging.getLogger("gradebox")


async def score_by_workers(
    transport: AsyncTransport, project: str, graders: GraderChoice, threads: Iterable[Thread]
) -> list[Outcomes]:
    """Scores threads as a batch. Returns the outcomes of each grader, in the order of the threads.

    The batch is deleted once its outcomes are read, so that a training does not fill the project's storage. It is
    cancelled if the caller is, or if the client is closed or the process ends: nobody would read its outcomes.

    Raises:
        BatchFailed: the batch was cancelled, or failed.
        GradeboxError: the service refused the batch, or did not answer.
    """
    rows = list(each_of(threads))
    if not rows:  # a batch has threads
        return [Outcomes() for _ in weights_of(graders)]
    batch = await AsyncBatches(transport, project).create(graders, rows)
    cancel = partial(_cancel, transport, project, batch.id)
    with cancelled_at_exit(batch.id, cancel):
        try:
            await _await_end(batch)
        except BaseException as error:
            # Ctrl-C, a cancelled task, or another thread has closed the client.
            if not isinstance(error, Exception) or isinstance(error, ClientClosed):
                _log.warning("batch %s is being cancelled; a second interrupt leaves it running", batch.id)
                await cancel()
            elif isinstance(error, ConnectionFailed):
                note_goes_on(error, batch.id)
            raise
    found = [outcome async for outcome in batch.outcomes()]
    with suppress(GradeboxError):  # it expires anyway
        await batch.delete()
    labels = [str(grader) for grader in batch.status.graders]
    return [Outcomes(outcome for outcome in found if outcome.grader == label) for label in labels]


async def _await_end(batch: AsyncBatchHandle) -> None:
    """Waits for the end of a batch, and logs why it does not go on."""
    told = ""
    while batch.status.state not in ENDED:
        reason = waits_for(batch.status)
        if reason and reason != told:
            _log.warning("batch %s: %s", batch.id, reason)
        told = reason
        await batch.refresh(UNSEEN_S)
    if batch.status.state != "finished":
        raise BatchFailed(batch.status)


async def _cancel(transport: AsyncTransport, project: str, batch_id: str, within_s: float = inf) -> None:
    """Cancels a batch over a connection of its own, because the client may be closed already. Only logs an error, which
    would hide an interrupt.
    """
    apart = AsyncTransport(transport.rules)
    try:
        await apart.send(batch_calls.cancel_batch(project, batch_id, within_s))
    except GradeboxError as error:
        _log.warning("batch %s was not cancelled: %s", batch_id, plain(str(error)))
    finally:
        await apart.close()
