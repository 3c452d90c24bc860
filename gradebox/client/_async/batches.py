"""Batches, as a user holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.batch_watch import BatchWatch
from gradebox.client.calls import GraderChoice, Labels
from gradebox.client.line_readers import OutcomeReader, SentThreadReader
from gradebox.client.outcomes import Rewards
from gradebox.client.recorded_scores import RecordedScore, score_lines
from gradebox.client.rows import Columns, with_columns
from gradebox.client.threads import Threads
from gradebox.errors import Conflict
from gradebox.frame import Listing, Outcomes
from gradebox.outcome import Outcome
from gradebox.outcome_table import ErrorGroups, KindFilter, Sort, TablePage
from gradebox.reduction import reduced
from gradebox.schemas import BATCH_COLUMNS, Batch, BatchBudget, BatchState, FeedbackOn, FeedbackTarget, Summary

_NOTHING_TO_SAY = "urn:gradebox:problem:nothing-to-say"


class AsyncBatchHandle:
    """A batch of the service. `status` is what it was when last asked."""

    def __init__(self, transport: AsyncTransport, batch: Batch) -> None:
        self.status = batch
        self._transport = transport

    @property
    def id(self) -> str:
        """The name of the batch in its project."""
        return self.status.id

    @property
    def state(self) -> BatchState:
        """Queued, running, finished, cancelled or failed, when last asked."""
        return self.status.state

    @property
    def summary(self) -> list[Summary]:
        """One for each grader, when last asked: of what was done so far."""
        return self.status.summary

    def __getattr__(self, name: str) -> Any:
        """What else `status` says: `batch.done`, `batch.created_at`."""
        if name.startswith("_") or name == "status":
            raise AttributeError(name)
        return getattr(self.status, name)

    def __repr__(self) -> str:
        status = self.status
        return f"<{type(self).__name__} {status.id} {status.state}: {status.done} of {status.total} outcomes>"

    async def refresh(self, wait_s: float = 0, bootstrap: bool = False) -> Batch:
        """Asks how far the batch is; the answer waits at most `wait_s` (30) seconds for its end.

        With `bootstrap=True`, once the batch is over, the confidence intervals in its summary are by bootstrap, for
        graders of up to 10,000 scores; the first time, that takes seconds. Else they are normal ones.
        """
        self.status = await self._transport.send(calls.get_batch(self.status.project, self.id, wait_s, bootstrap))
        return self.status

    async def wait(self, progress: bool = True, timeout: float | None = None) -> Batch:
        """Waits for the end, with a progress bar on stderr; `timeout` is in seconds.

        Raises:
            BatchFailed: it was cancelled, or failed. The outcomes it has can be read.
            WaitTimeout: it did not end in time, and goes on.
        """
        with BatchWatch(self.status, progress, timeout) as watch:
            while (patience := watch.saw(self.status)) is not None:
                await self.refresh(patience)
        return self.status

    @overload
    def outcomes(
        self, after: int | None = None, threads: Literal[False] = False, limit: int | None = None
    ) -> AsyncIterator[Outcome]: ...

    @overload
    def outcomes(
        self, after: int | None = None, *, threads: Literal[True], limit: int | None = None
    ) -> AsyncIterator[tuple[Outcome, Any]]: ...

    def outcomes(self, after: int | None = None, threads: bool = False, limit: int | None = None) -> AsyncIterator[Any]:
        """The outcomes so far, in the order of the threads; only those with an index above `after`, and of at most
        `limit` threads.

        With `threads=True`, pairs of an outcome and its thread as it was sent: a dict, or the line that was no JSON.
        """
        path = calls.outcomes_path(self.status.project, self.id)
        outcomes = self._transport.lines(path, OutcomeReader(after, limit))
        return self._with_threads(outcomes, after, limit) if threads else outcomes

    async def _with_threads(
        self, outcomes: AsyncIterator[Outcome], after: int | None, limit: int | None
    ) -> AsyncIterator[tuple[Outcome, Any]]:
        path = calls.threads_path(self.status.project, self.id)
        threads = self._transport.lines(path, SentThreadReader(after, limit))
        index, thread = -1 if after is None else after, None
        async for outcome in outcomes:
            while index < outcome.index:
                thread, index = await anext(threads), index + 1
            yield outcome, thread

    async def table(
        self,
        grader: str | None = None,
        *,
        kind: KindFilter | None = None,
        low: float | None = None,
        high: float | None = None,
        bin: int | None = None,  # noqa: A002  # as in the query
        text: str | None = None,
        sort: Sort = "index",
        page: int = 1,
        limit: int = 50,
    ) -> TablePage:
        """A page of the outcomes of one grader: at most `limit` (200) rows, and how many outcomes match. When the batch
        is over, the first page takes seconds where there are many: an index is made.

        `kind` is `scored`, `not_applicable`, `error`, or a kind of error; `low` and `high` bound the score, both
        included, and `bin` is the number of a bin of the summary's histogram. `text` is looked for in reasons,
        messages and completions, for five seconds, until 10,000 outcomes hold it: `is_cut` says that more may.

        Raises:
            gradebox.Conflict: the batch is not over. Then its outcomes so far are there by index, without filters.
        """
        wanted = (grader, kind, low, high, bin, text, sort, page, limit)
        return await self._transport.send(calls.table(self.status.project, self.id, *wanted))

    async def error_groups(self, grader: str | None = None) -> ErrorGroups:
        """The errors of one grader, when the batch is over: by kind, and in groups of what says the same.

        Raises:
            gradebox.Conflict: the batch is not over.
        """
        return await self._transport.send(calls.error_groups(self.status.project, self.id, grader))

    async def threads_at(self, indices: Iterable[int]) -> list[Any]:
        """The threads with these indices, at most 50, as they were sent: a dict each, or the line that was no JSON."""
        return await self._transport.send(calls.threads_at(self.status.project, self.id, indices))

    async def to_pandas(self, threads: bool = False) -> Any:
        """All outcomes as a `pandas.DataFrame`, when the batch has ended: waits for that. Needs pandas.

        With `threads=True` its column `thread` has the thread of each. Columns: see `Outcomes.to_pandas`.

        Raises:
            BatchFailed: it was cancelled, or failed.
        """
        await self.wait(progress=False)
        if not threads:
            return Outcomes([outcome async for outcome in self.outcomes()]).to_pandas()
        pairs = [pair async for pair in self.outcomes(threads=True)]
        return Outcomes([outcome for outcome, _ in pairs]).to_pandas([thread for _, thread in pairs])

    def _repr_html_(self) -> str:
        return self.status._repr_html_()

    async def rewards(self) -> list[float | None]:
        """One number for each thread, in order, when the batch has ended: waits for that.

        It is the sum of the graders' scores, each times the weight of its grader: of one grader without a weight, its
        score. None stands for a thread to which a grader gave no score.

        Raises:
            BatchFailed: it was cancelled, or failed.
        """
        await self.wait(progress=False)
        rewards = Rewards(self.status)
        async for outcome in self.outcomes():
            rewards.add(outcome)
        return rewards.result()

    async def feedback(
        self,
        model: str,
        on: FeedbackOn = "failures",
        of: FeedbackTarget = "completion",
        *,
        grader: str | None = None,
        threshold: float | None = None,
        labels: Labels | None = None,
        instructions: str | None = None,
        budget: BatchBudget | None = None,
        keep_replies: bool = True,
        success: Callable[[Sequence[float]], object] | None = None,
    ) -> AsyncBatchHandle | None:
        """Waits until the batch has ended, and asks a model what to change in its completions.

        The batch that it returns has an outcome for each that there is something to say of: its `reason` is the
        feedback, its `score` and `id` are those of the outcome that it is on, and `details["index"]` says where that
        stands in this batch. It returns None, and asks nothing, where there is nothing to improve: no outcome is a
        failure, or `success` says so.

        Args:
            model: the key of a model of the project.
            on: the outcomes that scored less than `threshold` (1), or all that have a score.
            of: `judge` for what to change in the judge itself; `labels` or `instructions` say what is wrong with it.
                A failure then is a score that differs from its label, from `threshold` on where there is one.
            grader: the grader whose outcomes these are, where the batch has several.
            threshold: see `on` and `of`.
            labels: see `of`.
            instructions: what else the model is told, in at most 4,000 characters.
            budget: as for `batches.create`; so is the next.
            keep_replies: see there.
            success: whether the scores, in order, are good enough, as `success_fn` of `gradebox.reduction.reduced`.

        Raises:
            BatchFailed: this batch was cancelled, or failed.
            ScoreMissing: `success` is to be asked, and an outcome is an error.
        """
        await self.wait(progress=False)
        if success is not None:
            one = str(self.status.graders[0]) if len(self.status.graders) == 1 else None
            outcomes = [outcome async for outcome in self.outcomes() if _is_of(outcome, grader or one)]
            if reduced(outcomes, purpose="feedback", reduction_fn=None, success_fn=success).is_success:
                return None
        fields = {"model": model, "on": on, "of": of, "grader": grader, "threshold": threshold}
        fields |= {"instructions": instructions, "keep_replies": keep_replies}
        try:
            made = await self._transport.send(
                calls.create_feedback(self.status.project, self.id, fields, labels, budget)
            )
        except Conflict as refused:
            if refused.type != _NOTHING_TO_SAY:
                raise
            return None
        return AsyncBatchHandle(self._transport, made)

    async def record(
        self,
        grader: str,
        scores: Mapping[str, RecordedScore] | Mapping[int, RecordedScore],
        by: Literal["id", "index"] = "id",
    ) -> Batch:
        """Records scores that come from outside, as labels of people, as outcomes of a grader of kind `custom`:
        `batch.record("human", {"sample-1": 1, "sample-2": gradebox.Score(0, reason="wrong unit")})`.

        Threads are named by their ids; with `by="index"`, by their place in the batch. A score that is there for the
        same thread is replaced. Of more than 20,000 scores, or with long reasons, some are recorded at once:
        should one of those be refused, those before them are there.

        Raises:
            gradebox.NotFound: there is no such grader.
            gradebox.Conflict: it is of another kind.
            gradebox.ApiError: a thread is not of the batch, or an id is that of two.
        """
        for lines in score_lines(scores, by):
            await self.record_lines(grader, lines)
        return self.status

    async def record_lines(self, grader: str, lines: bytes) -> Batch:
        """As `record`, for JSON lines such as `{"id": "sample-1", "score": 1, "reason": "why"}`: at most 100,000. All
        are recorded, or none. A line that names no id names an `index`.
        """
        self.status = await self._transport.send(calls.record_scores(self.status.project, self.id, grader, lines))
        return self.status

    async def retry(self) -> Batch:
        """Has the outcomes of a finished batch scored again whose error is `retryable`, and nothing else. Then it runs
        again: wait for it as for a new one.

        Raises:
            gradebox.Conflict: it was cancelled, or one of its graders was deleted.
        """
        self.status = await self._transport.send(calls.retry_batch(self.status.project, self.id))
        return self.status

    async def cancel(self) -> Batch:
        """Stops the batch. The outcomes it has can be read."""
        self.status = await self._transport.send(calls.cancel_batch(self.status.project, self.id))
        return self.status

    async def keep(self, kept: bool = True) -> Batch:
        """Keeps the batch when others have had their time; `kept=False` gives it that time again, from now."""
        self.status = await self._transport.send(calls.keep_batch(self.status.project, self.id, kept))
        return self.status

    async def delete(self) -> None:
        """Deletes the batch with its threads and outcomes."""
        await self._transport.send(calls.delete_batch(self.status.project, self.id))


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
        keep_replies: bool = True,
    ) -> AsyncBatchHandle:
        """Uploads threads to be scored: a list, a generator, or a file of JSON lines. They are streamed.

        `threads_of` names another batch, in place of threads: its own are scored, without being sent again.

        `columns` is for rows of a dataset. It says which columns are what of a thread, as in
        `{"question": "prompt", "response": "completion"}`; all others are metadata.

        Of graders that ask, `budget` ends the asking once so much is spent: what is left has errors of kind `model`,
        cause `over_budget`. Without `keep_replies`, each ask is sent anew, and its reply is not kept.
        """
        if threads_of is not None:
            if threads is not None or columns is not None:
                raise TypeError(
                    "a batch is of threads, or of those of another batch with threads_of=: give one of them"
                )
            source = threads_of if isinstance(threads_of, str) else threads_of.id
            call = calls.create_batch_of(self._project, graders, source, budget, keep_replies)
        elif threads is None:
            raise TypeError("a batch has threads: give them, or name a batch that has them with threads_of=")
        else:
            call = calls.create_batch(self._project, graders, with_columns(threads, columns), budget, keep_replies)
        return AsyncBatchHandle(self._transport, await self._transport.send(call))

    async def get(self, batch: str) -> AsyncBatchHandle:
        """The batch of this id."""
        return AsyncBatchHandle(self._transport, await self._transport.send(calls.get_batch(self._project, batch)))

    async def list(
        self, limit: int = 50, before: str | None = None, grader: str | None = None
    ) -> Listing[AsyncBatchHandle]:
        """The newest batches, or those older than the batch `before`; at most `limit` (200). With `grader`, those that
        it scores: `exact`, or `exact@3`.

        They are without summaries: `refresh()` gets one.
        """
        found = await self._transport.send(calls.list_batches(self._project, limit, before, grader))
        return Listing((AsyncBatchHandle(self._transport, batch) for batch in found), BATCH_COLUMNS)


def _is_of(outcome: Outcome, grader: str | None) -> bool:
    """Whether an outcome is of this grader: `key`, `key@version` or None for any."""
    return grader is None or grader in (outcome.grader, outcome.grader.partition("@")[0])
