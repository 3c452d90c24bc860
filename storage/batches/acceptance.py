"""Accepts batches: records a batch and calls workers in one transaction, once for each request."""

from collections.abc import Callable
from itertools import chain

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Batch
from storage.access.audit import Audit
from storage.batch_plan import PlannedGrader, UploadedBatch, are_weighted, scorer_of
from storage.batches import accepted_answer, batch_record
from storage.connection import clock, script
from storage.errors import KeyReused, QuotaExceeded, Refused
from storage.idempotency import Once, ToStore, answered, read, to_store
from storage.idempotency import pack as idempotent
from storage.queue.backlog import Backlog, Usage, Waiting
from storage.spool.chunks import pack
from storage.spool.orphan_files import OrphanFiles
from storage.statistics.outcome_tally import Tally
from storage.statistics.summary import summary_of


class _New(msgspec.Struct, omit_defaults=True):
    """A new batch, as the script `accept_batch` takes it."""

    id: str
    project: str
    waiting: int
    """Completions to be scored, counted for each grader."""
    size: int
    most: Usage
    fields: list[str]
    """Of the batch record: name, value, name, …."""
    sources: dict[str, str]
    """The version of each grader as JSON, by its digest."""
    holds: list[str]
    audit: list[str]
    once: ToStore | None = None


class Acceptance:
    """Accepts the batches of all projects."""

    def __init__(self, redis: Redis, backlog: Backlog, orphan_files: OrphanFiles, audit: Audit) -> None:
        self._redis = redis
        self._backlog = backlog
        self._orphan_files = orphan_files
        self._audit = audit
        self._accept_script = script(redis, "accept_batch")

    def accept(self, new: UploadedBatch, also: Callable[[Pipeline], None], once: Once | None = None) -> Batch:
        """Records the batch and runs `also`, which calls workers, in the same transaction.

        If another batch takes the room at that moment, a worker is called for a refused batch and finds nothing to do.
        If the request was already done, its earlier answer is returned. The files of a batch that is not accepted are
        condemned.

        Raises:
            TooLarge: the batch exceeds what a project may ever have waiting.
            QueueFull: the project has so much waiting that the batch does not fit now.
            QuotaExceeded: the project has reached its quota.
            KeyReused: `once` was used with another request.
        """
        scorers = [scorer_of(one) for one in new.wanted]
        fields = batch_record.new_record(new, scorers, are_weighted(new.wanted), clock(self._redis))
        batch = batch_record.shown(new.id, fields, 0, [summary_of(one.label, one.weight, Tally()) for one in scorers])
        try:
            answer = self._accept(new, batch, scorers, fields, also, once)
        except (Refused, QuotaExceeded, KeyReused):
            self._orphan_files.condemn(new.id)
            raise
        if answer is None:
            return batch
        before = accepted_answer.read(answer, new.project)
        if before.id != new.id:
            self._orphan_files.condemn(new.id)
        return before

    def _accept(
        self,
        new: UploadedBatch,
        batch: Batch,
        scorers: list[PlannedGrader],
        fields: dict[str, str],
        also: Callable[[Pipeline], None],
        once: Once | None,
    ) -> bytes | None:
        """The earlier answer to the same request, or None if the batch is accepted now."""
        if (answer := answered(self._redis, once)) is not None:
            return answer
        size = batch_record.size_of(new.chunks)
        self._backlog.check(batch.project, batch.total, size)  # first: a batch that does not fit calls no worker
        told = _New(
            batch.id,
            batch.project,
            batch.total,
            size,
            self._backlog.bounds,
            list(chain.from_iterable(fields.items())),
            {scorer.source: one.version.model_dump_json() for scorer, one in zip(scorers, new.wanted, strict=True)},
            [scorer.source for scorer in scorers],
            self._audit.arguments(batch.project, "batch.create", batch.id, ", ".join(one.label for one in new.wanted)),
            to_store(once),
        )
        kept = idempotent(once, accepted_answer.pack(batch)) if once else b""
        with self._redis.pipeline() as pipe:
            pipe.multi()
            self._accept_script(args=[msgspec.msgpack.encode(told), pack(new.chunks), kept], client=pipe)
            also(pipe)
            (answer, is_new, *has), *_ = pipe.execute()
        if not is_new:
            if (before := read(once, answer)) is not None:
                return before
            completions, active, batches, stored = has
            self._backlog.refuse(batch.project, Usage(Waiting(completions, active), batches, stored), batch.total, size)
            raise AssertionError(f"batch {batch.id} was refused and fits")
        return None

    def has_answered(self, once: Once | None) -> bool:
        """Whether a request with this Idempotency-Key was answered before, be it the same one or another."""
        return once is not None and bool(self._redis.exists(once.name))

    def answered(self, once: Once | None) -> Batch | None:
        """The earlier answer to the same request, if there is one. Raises KeyReused."""
        if once is None or (answer := answered(self._redis, once)) is None:
            return None
        return accepted_answer.read(answer, once.project)
