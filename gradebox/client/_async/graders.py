"""The graders of a project."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

from gradebox.client import grader_names
from gradebox.client._async.batch_handle import AsyncBatchHandle
from gradebox.client._async.batch_scoring import score_by_workers
from gradebox.client._async.creation import AsyncCreation
from gradebox.client._async.handles import AsyncGraderHandle
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import batch_calls, collection, grader_calls
from gradebox.client.calls.batch_calls import Labels
from gradebox.client.dataset_rows import Columns, with_columns
from gradebox.client.grader_names import GraderChoice, OneGrader
from gradebox.client.outcomes import moved
from gradebox.client.suggestion import NOTHING, Suggestion, bring_together, judge_of, suggestion, with_feedback
from gradebox.client.thread_line import Thread
from gradebox.client.threads import Pieces, ScoreLimits
from gradebox.client.versions import (
    ONE_OF,
    Ask,
    Function,
    GraderOptions,
    UpdateOptions,
    check_isolation,
    check_key,
    check_options,
    check_source,
    source_of,
    update_call,
)
from gradebox.errors import Conflict, NotFound, TooLarge
from gradebox.frame import Listing, Outcomes
from gradebox.schemas import GRADER_COLUMNS, BatchBudget, GraderRecord, Isolation, Report, Version, WrittenKind


class AsyncGraders:
    """The graders of the client's project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project
        self._limits = ScoreLimits()
        self.create = AsyncCreation(transport, project, self)

    async def score(
        self, key: OneGrader, threads: Iterable[Thread], version: int | None = None, columns: Columns | None = None
    ) -> Outcomes:
        """As `client.score`."""
        name, number = grader_names.version_of(key, version)
        outcomes = Outcomes()
        pieces = Pieces(with_columns(threads, columns), self._limits)
        for first, lines in pieces:
            call = grader_calls.score(self._project, name, number, lines)
            try:
                outcomes += moved(await self._transport.send(call), first)
            except TooLarge as error:
                if not pieces.cut_again(error):
                    raise
                continue
            name, number = grader_names.split_version(outcomes[0].grader)  # of all requests, also after an update
        if not outcomes:  # nothing was sent that would have told of a misspelt key or version
            if number is None:
                await self.get(name)
            else:
                await self._transport.send(grader_calls.get_version(self._project, name, number))
        return outcomes

    async def score_by_workers(self, graders: GraderChoice, threads: Iterable[Thread]) -> list[Outcomes]:
        """As `batch_scoring.score_by_workers`, in the client's project."""
        return await score_by_workers(self._transport, self._project, graders, threads)

    async def validate(
        self,
        fn: Function,
        threads: Sequence[Thread] | None = None,
        isolation: Isolation | None = None,
        grader: str | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> Report:
        """Runs the five checks. An invalid grader does not raise: the report is false, and has the failed check.

        Args:
            fn: the grader as a function, or its source as a string.
            threads: the threads for the test run; by default those that stay with the grader `grader`.
            isolation: how completions are isolated from each other: `auto`, `batch` or `completion`.
            grader: the key of a grader whose threads and environment are the defaults.
            environment: the environment whose packages the grader may import; by default that of the newest version of
                `grader`.
            ask: as for `create.function`.

        Raises:
            SourceError: the function cannot stand alone; the message says what to change.
        """
        check_isolation(isolation)
        if grader is not None:
            environment = await self._environment_of(grader, fn, environment)
        source = source_of(fn, environment)
        call = grader_calls.validate(self._project, source, threads, isolation, grader, environment, ask)
        return await self._transport.send(call)

    async def get(self, key: str) -> AsyncGraderHandle:
        """One grader. Raises NotFound."""
        return self._handle(await self._transport.send(collection.graders.get(self._project, key)))

    async def update(
        self,
        key: str,
        fn: Function | None = None,
        *,
        if_version: int | None = None,
        **options: Unpack[UpdateOptions],
    ) -> AsyncGraderHandle:
        """Gives a grader a new version, name or description. If nothing changes, there is no new version.

        Args:
            key: the key of the grader.
            fn: the new source, as a function or a string. It turns a grader of another kind into a function grader,
                with a GraderWarning. Without `fn` and `kind`, the new version has the source, kind and settings of the
                last one.
            if_version: the newest version that you know.
            options: those of `create.function`, or `kind`, which writes the source, and `config`, all of its settings.
                The new threads stay with the grader; by default those that stay with it already are used. The
                environment is by default the same build as the last version's, "" for none.

        Raises:
            SourceError, ValidationError: as for `create.function`; the grader is unchanged.
            Conflict: the grader is locked.
            VersionChanged: the newest version is no longer `if_version`; nothing was saved.
        """
        check_options(options)
        return await self._update(key, fn, options, if_version=if_version)

    async def _update(
        self,
        key: str,
        fn: Function | None,
        options: UpdateOptions,
        *,
        known: GraderRecord | None = None,
        if_version: int | None = None,
    ) -> AsyncGraderHandle:
        """Without a new version, there are no warnings if `known` is the grader as it is."""
        options["environment"] = await self._environment_of(key, fn, options.get("environment"), known)
        call = update_call(self._project, key, fn, if_version, options, known)
        return self._handle(await self._transport.send(call))

    async def put(
        self,
        key: str,
        fn: Function | None = None,
        *,
        kind: WrittenKind | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Creates the grader, or gives an existing one a new version: for scripts that run repeatedly.

        Give the grader as a function, or as a `kind` with its `config`. `options` are those of `create.function`. It
        issues the warnings of the checks if there is a new version.

        Raises:
            SourceError, ValidationError, Conflict: as for `create.function` and `update`.
        """
        check_key(key)
        if fn is kind is None:
            raise TypeError(ONE_OF)
        check_source(fn, kind, config)
        check_options(options)
        known = await self._known(key)
        if known is None:
            try:
                if kind is not None and config is not None:
                    return await self.create.of_kind(key=key, kind=kind, config=config, **options)
                assert fn is not None
                return await self.create.function(key=key, fn=fn, **options)
            except Conflict:
                known = await self._known(key)
                if known is None:
                    raise
        # It exists, perhaps only since the first look: each process of a training puts the same grader.
        return await self._update(key, fn, {**options, "kind": kind, "config": config}, known=known)

    async def _known(self, key: str) -> GraderRecord | None:
        with suppress(NotFound):
            return await self.get(key)
        return None

    async def test_threads(self, key: str) -> Sequence[Thread]:
        """The threads that stay with a grader, as dicts: those of the last checks that were sent threads."""
        return await self._transport.send(grader_calls.test_threads(self._project, key))

    async def delete(self, key: str) -> None:
        """Deletes a grader. Running batches continue with the version that they started with."""
        await self._transport.send(collection.graders.delete(self._project, key))

    async def lock(self, key: str, locked: bool = True) -> AsyncGraderHandle:
        """Protects a grader against changes and deletion, until it is unlocked with `locked=False`."""
        call = collection.graders.patch(self._project, key, {"locked": locked})
        return self._handle(await self._transport.send(call))

    async def map_weave(
        self, key: str, *, completion: str | None = None, prompt: str | None = None, metadata: str | None = None
    ) -> AsyncGraderHandle:
        """Sets where calls of Weave, which a RemoteScorer sends, hold the parts of a thread.

        A path looks like `output.answer` or `inputs.messages.0.content`. The new paths replace all previous ones; for a
        part that is None, the defaults of docs/weave.md apply.

        Raises:
            ApiError: a path does not begin with `inputs`, `output` or `messages`, or has empty names.
            Conflict: the grader is locked.
        """
        mapping = {"completion": completion, "prompt": prompt, "metadata": metadata}
        call = collection.graders.patch(self._project, key, {"weave": mapping})
        return self._handle(await self._transport.send(call))

    async def versions(self, key: str) -> list[Version]:
        """All versions of a grader with their sources, oldest first."""
        found, after = list[Version](), 0  # one answer may hold only some of them
        while True:
            more = await self._transport.send(grader_calls.list_versions(self._project, key, after))
            if not more or more[-1].number <= after:
                return found
            found, after = found + more, more[-1].number

    async def suggest(
        self,
        key: str,
        *,
        batch: str | AsyncBatchHandle,
        labels: Labels,
        model: str,
        threshold: float | None = None,
        instructions: str | None = None,
        budget: BatchBudget | None = None,
    ) -> Suggestion:
        """Asks a model for an improved text of a judge, from completions of a batch whose scores differ from labels.

        The model merges the first 50 texts of feedback into one proposal. The judge is not changed: read the proposal,
        and pass it to `update`. The arguments are those of `batch.feedback`; `budget` limits the feedback only.

        Raises:
            BatchFailed: the batch was cancelled, or failed.
            GradeboxError: the model failed for all completions, or the feedback could not be merged. The batch that the
                message names has the feedback.
        """
        if isinstance(batch, str):
            found = await self._transport.send(batch_calls.get_batch(self._project, batch))
            batch = AsyncBatchHandle(self._transport, found)
        judge = judge_of(batch.status, key)
        given = await batch.feedback(
            model,
            of="judge",
            grader=str(judge),
            threshold=threshold,
            labels=labels,
            instructions=instructions,
            budget=budget,
        )
        if given is None:
            return NOTHING
        await given.wait(progress=False)
        said = with_feedback([outcome async for outcome in given.outcomes()], given.id)
        if not said:
            return NOTHING._replace(batch=given.id)
        grader = await self._transport.send(collection.graders.get(self._project, judge.key))
        version = await self._transport.send(grader_calls.get_version(self._project, judge.key, judge.version))
        reasons = [outcome.reason for outcome in said if outcome.reason]
        call = bring_together(self._project, model, grader, version, reasons, instructions)
        return suggestion(said, await self._transport.send(call), given.status)

    def _handle(self, grader: GraderRecord) -> AsyncGraderHandle:
        return AsyncGraderHandle.of(grader, self)

    async def _environment_of(
        self, key: str, fn: Function | None, environment: str | None, known: GraderRecord | None = None
    ) -> str | None:
        """The environment for extracting a function as a new version; by default that of the newest version.

        Returns `environment` unchanged for a source or without a function, since extraction is not needed then.
        """
        if environment is not None or fn is None or isinstance(fn, str):
            return environment
        newest = known or await self.get(key)
        return newest.environment.label if newest.environment else None

    async def list(self) -> Listing[AsyncGraderHandle]:
        """All graders of the project."""
        found, after = list[GraderRecord](), ""
        while True:
            more = await self._transport.send(grader_calls.list_graders(self._project, after))
            if not more or more[-1].key <= after:
                return Listing((self._handle(grader) for grader in found), GRADER_COLUMNS)
            found, after = found + more, more[-1].key
