"""The batches of a project."""

from __future__ import annotations

from gradebox.client._async.batch_handle import AsyncBatchHandle
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import batch_calls
from gradebox.client.dataset_rows import Columns, with_columns
from gradebox.client.grader_names import GraderChoice
from gradebox.client.threads import Threads
from gradebox.frame import Listing
from gradebox.schemas import BATCH_COLUMNS, BatchBudget, Replies


class AsyncBatches:
    """The batches of the client's project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def create(
        self,
        graders: GraderChoice,
        threads: Threads | None = None,
        *,
        threads_of: str | AsyncBatchHandle | None = None,
        columns: Columns | None = None,
        budget: BatchBudget | None = None,
        replies: Replies = "kept",
    ) -> AsyncBatchHandle:
        """Uploads threads and has them scored as a batch.

        Args:
            graders: one grader, several, or several with their weights. A handle stands for its version. With
                weights for several, each thread has an outcome of `combined` too: the weighted sum of the scores.
            threads: a list, a generator, or a file of JSON lines. The upload is streamed. If the path is that of a file
                that grows meanwhile, what it held at the start is sent.
            threads_of: another batch whose threads are scored instead, without sending them again.
            columns: for rows of a dataset, the member of a thread that each column is, as in
                `{"question": "prompt", "response": "completion"}`. All other columns are metadata.
            budget: the most that graders may spend on asks. Once it is spent, the remaining outcomes have errors of
                kind `model` with cause `over_budget`.
            replies: `kept` if kept replies may answer asks and new ones are kept; with `new`, each ask is sent again.

        Raises:
            ValueError: the file became shorter meanwhile, or its last line was not complete; nothing was scored.
        """
        if threads_of is not None:
            if threads is not None or columns is not None:
                raise TypeError(
                    "a batch is of threads, or of those of another batch with threads_of=: give one of them"
                )
            source = threads_of if isinstance(threads_of, str) else threads_of.id
            call = batch_calls.create_batch_of(self._project, graders, source, budget, replies)
        elif threads is None:
            raise TypeError("a batch has threads: give them, or name a batch that has them with threads_of=")
        else:
            call = batch_calls.create_batch(self._project, graders, with_columns(threads, columns), budget, replies)
        return AsyncBatchHandle(self._transport, await self._transport.send(call))

    async def get(self, batch: str) -> AsyncBatchHandle:
        """The batch of this id."""
        found = await self._transport.send(batch_calls.get_batch(self._project, batch))
        return AsyncBatchHandle(self._transport, found)

    async def delete(self, batch: str) -> None:
        """Deletes the batch of this id with its threads and outcomes."""
        await self._transport.send(batch_calls.delete_batch(self._project, batch))

    async def list(
        self, limit: int = 50, before: str | None = None, grader: str | None = None
    ) -> Listing[AsyncBatchHandle]:
        """The newest batches, without summaries: `refresh()` requests the summary of one.

        Args:
            limit: how many batches, at most 200.
            before: the id of a batch: only older batches.
            grader: only batches that this grader scores, such as `exact` or `exact@3`.
        """
        found = await self._transport.send(batch_calls.list_batches(self._project, limit, before, grader))
        return Listing((AsyncBatchHandle(self._transport, batch) for batch in found), BATCH_COLUMNS)
