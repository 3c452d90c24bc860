"""A batch of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Literal, Self, overload

from gradebox.client._async.transport import AsyncTransport
from gradebox.client.batch_record import BatchRecord
from gradebox.client.batch_rewards import Rewards
from gradebox.client.batch_watch import BatchWatch
from gradebox.client.calls import batch_calls
from gradebox.client.calls.batch_calls import Labels
from gradebox.client.line_readers import OutcomeReader, SentThreadReader
from gradebox.client.outcomes import is_of, no_scores
from gradebox.client.recorded_scores import RecordedScore, blocks_of, note_recorded, score_lines
from gradebox.errors import Conflict, ConnectionFailed, GradeboxError
from gradebox.frame import Outcomes
from gradebox.outcome import Outcome
from gradebox.reduction import reduced
from gradebox.schemas import ENDED, Batch, BatchBudget, FeedbackOn, FeedbackTarget, Replies
from gradebox.schemas.outcome_table import ErrorGroups, KindFilter, Sort, TablePage
from gradebox.warn import warn

_NO_THREAD = object()
_NOTHING_TO_SAY = "urn:gradebox:problem:nothing-to-say"


class AsyncBatchHandle(BatchRecord):
    """A batch of the service. `status` is its state in the last answer of the service."""

    def __init__(self, transport: AsyncTransport, batch: Batch) -> None:
        self.status = batch
        self._transport = transport

    async def refresh(self, wait_s: float = 0, bootstrap: bool = False, combined: bool = False) -> Batch:
        """Requests the state of the batch and stores it as `status`.

        Args:
            wait_s: how many seconds, at most 30, the service may wait for the end of the batch before it answers.
            bootstrap: once the batch is over, compute the confidence intervals in its summary by bootstrap, for
                graders with up to 10,000 scores. The first request takes seconds. Otherwise they are normal intervals.
            combined: once a batch of several graders with weights is over, compute the summary of its combined
                outcomes. The first request takes seconds for a large batch.
        """
        call = batch_calls.get_batch(self.status.project, self.id, wait_s, bootstrap, combined=combined)
        self.status = await self._transport.send(call)
        return self.status

    async def wait(self, progress: bool = True, timeout: float | None = None) -> Self:
        """Waits for the end of the batch, with a progress bar on stderr, and returns this handle. `timeout` is in
        seconds. Warns (GraderWarning) of graders that could score no thread.

        Raises:
            BatchFailed: the batch was cancelled, or failed. Its outcomes so far can be read.
            WaitTimeout: the batch did not end in time. It continues to run.
        """
        if self.status.state in ENDED:
            # Another client may have had it scored again. If not, the status may have bootstrap intervals.
            call = batch_calls.get_batch(self.status.project, self.id, within_s=inf if timeout is None else timeout)
            if (now := await self._transport.send(call)).finished_at != self.status.finished_at:
                self.status = now
        with BatchWatch(self.status, progress, timeout) as watch:
            while (wait_s := watch.observe(self.status)) is not None:
                call = batch_calls.get_batch(self.status.project, self.id, wait_s, within_s=watch.left_s)
                self.status = await self._transport.send(call)
        if unscored := [each for each in self.status.summary if each.errors and not each.scored]:
            first: dict[str, Outcome] = {}
            with suppress(GradeboxError):  # the batch is over: an example is not worth an error
                first = {outcome.grader: outcome async for outcome in self.outcomes(limit=1)}
            for summary in unscored:
                warn(no_scores(summary, first.get(summary.grader)))
        return self

    @overload
    def outcomes(
        self, after: int | None = None, threads: Literal[False] = False, limit: int | None = None
    ) -> AsyncIterator[Outcome]: ...

    @overload
    def outcomes(
        self, after: int | None = None, *, threads: Literal[True], limit: int | None = None
    ) -> AsyncIterator[tuple[Outcome, Any]]: ...

    def outcomes(self, after: int | None = None, threads: bool = False, limit: int | None = None) -> AsyncIterator[Any]:
        """The outcomes so far, in the order of the threads: for each one of each grader, and one of `combined` if
        several graders have weights.

        Args:
            after: yield only outcomes with an index above this one.
            threads: yield pairs of an outcome and its thread as it was sent: a dict, or the line if it is not JSON.
            limit: yield the outcomes of at most this many threads.

        Raises:
            GradeboxError: `status` says that the batch is finished, all outcomes are requested, and some are missing:
                the batch is scored again, or a proxy has cut them off. The error comes after the last one.
        """
        path = batch_calls.outcomes_path(self.status.project, self.id)
        outcomes = self._transport.lines(path, OutcomeReader(after, limit))
        if self.status.state == "finished" and after is None and limit is None:
            outcomes = self._counted(outcomes)
        return self._with_threads(outcomes, after, limit) if threads else outcomes

    async def _counted(self, outcomes: AsyncIterator[Outcome]) -> AsyncIterator[Outcome]:
        """Counts the outcomes: those of a batch that is scored again end early, and a proxy may cut off a stream."""
        graders, missing = set(map(str, self.status.graders)), self.status.total
        async for outcome in outcomes:
            missing -= outcome.grader in graders  # others are combined outcomes and recorded scores
            yield outcome
        if missing:
            raise GradeboxError(
                f"{missing} of {self.status.total} outcomes of batch {self.id} are missing: it is being scored again, "
                "or a proxy has cut them off. Wait for its end once more, and read them again"
            )

    async def _with_threads(
        self, outcomes: AsyncIterator[Outcome], after: int | None, limit: int | None
    ) -> AsyncIterator[tuple[Outcome, Any]]:
        path = batch_calls.threads_path(self.status.project, self.id)
        threads = self._transport.lines(path, SentThreadReader(after, limit))
        index, thread = -1 if after is None else after, None
        async for outcome in outcomes:
            while index < outcome.index:
                thread, index = await anext(threads, _NO_THREAD), index + 1
                if thread is _NO_THREAD:
                    raise ConnectionFailed(f"the threads were cut off before thread {index}: read them again")
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
        """A page of the outcomes of one grader, and the number of outcomes that match.

        The first page of a large batch that is over takes seconds, because the service builds an index.

        Args:
            grader: the grader, needed if the batch has several.
            kind: only outcomes of this kind: `scored`, `not_applicable`, `error`, or a kind of error.
            low: only scores from this one on, inclusive.
            high: only scores up to this one, inclusive.
            bin: only scores in the bin with this number of the summary's histogram.
            text: only outcomes with this text in their reason, message or completion. The search stops after five
                seconds or 10,000 matches; then `is_cut` is true and more outcomes may match.
            sort: the order of the rows.
            page: the number of the page, from 1.
            limit: how many rows a page has, at most 200.

        Raises:
            gradebox.Conflict: the batch is not over. Its outcomes so far are available by index only, without filters.
        """
        wanted = (grader, kind, low, high, bin, text, sort, page, limit)
        return await self._transport.send(batch_calls.table(self.status.project, self.id, *wanted))

    async def error_groups(self, grader: str | None = None) -> ErrorGroups:
        """The errors of one grader of a batch that is over, by kind, in groups of similar messages.

        Raises:
            gradebox.Conflict: the batch is not over.
        """
        return await self._transport.send(batch_calls.error_groups(self.status.project, self.id, grader))

    async def threads_at(self, indices: Iterable[int]) -> list[Any]:
        """The threads with these indices, at most 50, as they were sent: a dict, or the line if it is not JSON."""
        if not (wanted := list(indices)):  # without an index, the service would send all threads
            return []
        return await self._transport.send(batch_calls.threads_at(self.status.project, self.id, wanted))

    async def to_pandas(self, threads: bool = False) -> Any:
        """Waits for the end of the batch and returns all outcomes as a `pandas.DataFrame`. Needs pandas.

        With `threads=True`, the column `thread` holds the thread of each outcome. `Outcomes.to_pandas` describes the
        other columns.

        Raises:
            BatchFailed: the batch was cancelled, or failed.
            GradeboxError: outcomes are missing, because the batch is scored again meanwhile.
        """
        await self.wait(progress=False)
        if not threads:
            found = [outcome async for outcome in self.outcomes()]
            return Outcomes(found).to_pandas()
        pairs = [pair async for pair in self.outcomes(threads=True)]
        found = [outcome for outcome, _ in pairs]
        return Outcomes(found).to_pandas([thread for _, thread in pairs])

    async def rewards(self) -> list[float | None]:
        """Waits for the end of the batch and returns one number for each thread, in order.

        The number is the sum of the graders' scores, each multiplied by the weight of its grader. With one grader
        without a weight, it is that grader's score. It is None if a grader gave the thread no score, or the sum
        is not finite.

        Raises:
            BatchFailed: the batch was cancelled, or failed.
            GradeboxError: outcomes are missing, because the batch is scored again meanwhile.
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
        replies: Replies = "kept",
        success: Callable[[Sequence[float]], object] | None = None,
    ) -> AsyncBatchHandle | None:
        """Waits for the end of the batch and asks a model what to change in its completions.

        The returned batch has an outcome for each outcome of this batch that gets feedback: its `reason` is the
        feedback, its `score` and `id` are those of the outcome of this batch, and `details["index"]` is the index of
        that outcome in this batch. If there is nothing to improve, because no outcome is a failure or `success`
        returns true, the method asks no model and returns None.

        Args:
            model: the key of a model of the project.
            on: `failures` for the outcomes that scored less than `threshold`, 1 by default; `all` for all that have a
                score.
            of: `completion` for what to change in the completions; `judge` for what to change in the judge itself.
                With `judge`, `labels` or `instructions` show what is wrong; without them, the model decides it. With
                labels, a failure is a score that differs from its label; with a `threshold`, scores and labels from
                there on count as 1 and others as 0.
            grader: the grader whose outcomes get feedback, needed if the batch has several.
            threshold: see `on` and `of`.
            labels: the right scores, see `of`.
            instructions: additional instructions for the model, at most 4,000 characters.
            budget: as for `batches.create`.
            replies: as for `batches.create`.
            success: a function of the scores, in order, that returns whether they are good enough, as `success_fn` of
                `gradebox.reduction.reduced`.

        Raises:
            BatchFailed: this batch was cancelled, or failed.
            ScoreMissing: `success` is given, and an outcome is an error.
        """
        await self.wait(progress=False)
        if success is not None:
            one = str(self.status.graders[0]) if len(self.status.graders) == 1 else None
            found = [outcome async for outcome in self.outcomes()]
            outcomes = [outcome for outcome in found if is_of(outcome, grader or one)]
            if reduced(outcomes, purpose="feedback", reduction_fn=None, success_fn=success).is_success:
                return None
        fields = {"model": model, "on": on, "of": of, "grader": grader, "threshold": threshold}
        fields |= {"instructions": instructions, "replies": replies}
        try:
            made = await self._transport.send(
                batch_calls.create_feedback(self.status.project, self.id, fields, labels, budget)
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
        """Records external scores, such as labels by people, as outcomes of a grader of kind `custom`:
        `batch.record("human", {"sample-1": 1, "sample-2": gradebox.Score(0, reason="wrong unit")})`.

        A score replaces an earlier one that was recorded for the same thread. More than 20,000 scores, or scores with
        long reasons, are sent in several requests: if the service refuses one of them, the scores of the requests
        before it remain recorded.

        Args:
            grader: the key of a grader of kind `custom`.
            scores: the scores by thread, each a number or a `Score` with its reason.
            by: `id` if `scores` names threads by their ids, `index` if by their positions in the batch.

        Raises:
            gradebox.NotFound: there is no such grader.
            gradebox.Conflict: the grader is of another kind.
            gradebox.ApiError: a thread is not in the batch, or two threads have the same id.
        """
        return await self._record(grader, score_lines(scores, by))

    async def record_lines(self, grader: str, lines: bytes | Iterable[bytes]) -> Batch:
        """As `record`, for JSON lines such as `{"id": "sample-1", "score": 1, "reason": "why"}`.

        A line has an `id` or an `index`. Bytes are one request of at most 100,000 lines, which the service records all,
        or none. Other lines, each with its end, are sent in as few requests as possible.
        """
        return await self._record(grader, [lines] if isinstance(lines, bytes) else blocks_of(lines))

    async def _record(self, grader: str, blocks: Iterable[bytes]) -> Batch:
        recorded = 0
        for lines in blocks:
            try:
                self.status = await self._transport.send(
                    batch_calls.record_scores(self.status.project, self.id, grader, lines)
                )
            except GradeboxError as error:
                note_recorded(error, recorded)
                raise
            recorded += lines.count(b"\n")
        return self.status

    async def retry(self) -> Batch:
        """Scores only those outcomes of a finished batch again whose error is `retryable`.

        The batch then runs again: wait for it as for a new one.

        Raises:
            gradebox.Conflict: the batch was cancelled, or one of its graders was deleted.
        """
        self.status = await self._transport.send(batch_calls.retry_batch(self.status.project, self.id))
        return self.status

    async def cancel(self) -> Batch:
        """Stops the batch. The outcomes of its finished chunks can be read."""
        self.status = await self._transport.send(batch_calls.cancel_batch(self.status.project, self.id))
        return self.status

    async def keep(self, kept: bool = True) -> Batch:
        """Keeps the batch beyond the usual retention time; with `kept=False`, that time starts again now."""
        self.status = await self._transport.send(batch_calls.keep_batch(self.status.project, self.id, kept))
        return self.status

    async def delete(self) -> None:
        """Deletes the batch with its threads and outcomes."""
        await self._transport.send(batch_calls.delete_batch(self.status.project, self.id))
