# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""Graders, as a user handles them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

from gradebox.client import calls
from gradebox.client._sync.batches import BatchHandle
from gradebox.client._sync.creation import Creation
from gradebox.client._sync.scoring import Scoring
from gradebox.client._sync.transport import Transport
from gradebox.client._sync.versions import environment_of, versions
from gradebox.client.calls import Labels
from gradebox.client.handles import GraderHandle
from gradebox.client.suggestion import NOTHING, Suggestion, bring_together, judge_of, suggestion
from gradebox.client.threads import Thread
from gradebox.client.versions import (
    ONE_OF,
    Ask,
    Function,
    GraderOptions,
    check_isolation,
    check_source,
    source_of,
    update_call,
)
from gradebox.errors import NotFound
from gradebox.frame import Listing
from gradebox.schemas import GRADER_COLUMNS, BatchBudget, GraderRecord, Isolation, Report, Version, WrittenKind


class Graders:
    """The graders of the client's project."""

    def __init__(self, transport: Transport, project: str, scoring: Scoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring
        self.create = Creation(transport, project, scoring)

    def validate(
        self,
        fn: Function,
        threads: Sequence[Thread] | None = None,
        isolation: Isolation | None = None,
        grader: str | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> Report:
        """Asks for the five checks; what is not valid is said in the report, and raises nothing.

        Without `threads`, the test run is made on those that stay with the grader of the key `grader`; without
        `environment`, in that of its newest version. `ask` is as for `create.function`.
        """
        check_isolation(isolation)
        if grader is not None:
            environment = environment_of(self._transport, self._project, grader, fn, environment)
        source = source_of(fn, environment)
        call = calls.validate(self._project, source, threads, isolation, grader, environment, ask)
        return self._transport.send(call)

    def get(self, key: str) -> GraderHandle:
        """One grader. Raises NotFound."""
        return self._held(self._transport.send(calls.get_grader(self._project, key)))

    def update(
        self,
        key: str,
        *,
        fn: Function | None = None,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
        kind: WrittenKind | None = None,
        config: Mapping[str, Any] | None = None,
        if_version: int | None = None,
    ) -> GraderHandle:
        """Gives a grader a new version, name or description. Where nothing changed there is no new version.

        The source is `fn`, or is written by `kind` from `config`, which are all settings of that kind. Without them,
        the new version has the source, kind and settings of the last one. `fn` makes a function of a grader of
        another kind, and a GraderWarning says so.

        The test run is made on `threads`, which stay with the grader, or else on those that stayed with it before. A
        new version runs in the build of an environment that the last one ran in, unless `environment` names another,
        or "" for none. `ask` is as for `create.function`. `if_version` is the newest version that you know.

        Raises:
            SourceError, ValidationError: as for `create.function`; the grader stays as it was.
            Conflict: the grader is locked.
            VersionChanged: somebody made another version than `if_version` meanwhile; nothing was saved.
        """
        environment = environment_of(self._transport, self._project, key, fn, environment)
        version = fn, isolation, timeout_s, memory_mb, threads, environment, ask, kind, config, if_version
        return self._held(self._transport.send(update_call(self._project, key, name, description, *version)))

    def put(
        self,
        key: str,
        *,
        fn: Function | None = None,
        kind: WrittenKind | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Makes the grader, or gives the one that there is a new version: for scripts that run again. It is a function,
        or of a `kind` with its settings.

        Raises:
            SourceError, ValidationError, Conflict: as for `create.function` and `update`.
        """
        if fn is kind is None:
            raise TypeError(ONE_OF)
        check_source(fn, kind, config)
        asked = options.get("environment")
        options["environment"] = environment_of(self._transport, self._project, key, fn, asked)
        with suppress(NotFound):
            call = update_call(self._project, key, fn=fn, kind=kind, config=config, **options)
            return self._held(self._transport.send(call))
        if kind is not None and config is not None:
            return self.create.of_kind(key=key, kind=kind, config=config, **options)
        assert fn is not None
        return self.create.function(key=key, fn=fn, **options)

    def test_threads(self, key: str) -> Sequence[Thread]:
        """The threads that stay with a grader: those of its last proof that was sent some, as dicts."""
        return self._transport.send(calls.test_threads(self._project, key))

    def delete(self, key: str) -> None:
        """Deletes a grader. Batches that run keep the version they began with."""
        self._transport.send(calls.delete_grader(self._project, key))

    def lock(self, key: str, locked: bool = True) -> GraderHandle:
        """Keeps a grader from being changed or deleted, until it is unlocked with `locked=False`."""
        return self._held(self._transport.send(calls.patch_grader(self._project, key, {"locked": locked})))

    def map_weave(
        self, key: str, *, completion: str | None = None, prompt: str | None = None, metadata: str | None = None
    ) -> GraderHandle:
        """Says where calls of Weave, which a RemoteScorer sends, have what the grader looks at: paths such as
        `output.answer` or `inputs.messages.0.content`. It replaces what was said before: what is None is found as
        docs/weave.md says.

        Raises:
            ApiError: a path does not begin with `inputs`, `output` or `messages`, or has empty names.
            Conflict: the grader is locked.
        """
        mapping = {"completion": completion, "prompt": prompt, "metadata": metadata}
        return self._held(self._transport.send(calls.patch_grader(self._project, key, {"weave": mapping})))

    def versions(self, key: str) -> list[Version]:
        """All versions of a grader with their sources."""
        return versions(self._transport, self._project, key)

    def suggest(
        self,
        key: str,
        *,
        batch: str | BatchHandle,
        labels: Labels,
        model: str,
        threshold: float | None = None,
        instructions: str | None = None,
        budget: BatchBudget | None = None,
    ) -> Suggestion:
        """What a model would change in a judge, by the completions of a batch where its scores differ from labels.

        The first 50 texts of feedback are brought together into one proposal. Nothing is changed: read it, and give it
        to `update`. Arguments are as for `batch.feedback`; `budget` is that of the feedback.

        Raises:
            BatchFailed: the batch was cancelled, or failed.
            GradeboxError: the feedback could not be brought together; it stands in the batch that the message names.
        """
        if isinstance(batch, str):
            batch = BatchHandle(self._transport, self._transport.send(calls.get_batch(self._project, batch)))
        judge = judge_of(batch.status, key)
        given = batch.feedback(
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
        given.wait(progress=False)
        said = [outcome for outcome in given.outcomes() if outcome.reason and outcome.score is not None]
        if not said:
            return NOTHING._replace(batch=given.id)
        grader = self._transport.send(calls.get_grader(self._project, judge.key))
        version = self._transport.send(calls.get_version(self._project, judge.key, judge.version))
        reasons = [outcome.reason for outcome in said if outcome.reason]
        call = bring_together(self._project, model, grader, version, reasons, instructions)
        return suggestion(said, self._transport.send(call), given.id)

    def _held(self, grader: GraderRecord) -> GraderHandle:
        return GraderHandle.of(grader, self._scoring)

    def list(self) -> Listing[GraderHandle]:
        """All graders of the project."""
        found, after = list[GraderRecord](), ""
        while (more := self._transport.send(calls.list_graders(self._project, after))) and more[-1].key > after:
            found, after = found + more, more[-1].key
        return Listing((self._held(grader) for grader in found), GRADER_COLUMNS)
