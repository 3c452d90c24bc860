"""Retries of finished batches: only the outcomes with retryable errors are scored again.

The units with retryable outcomes become pending again, and a batch with pending units is running. The other outcomes of
these units keep counting. The retryable outcomes stop counting until the new ones replace them; if the batch ends
before that, they count again, so no score is lost. Workers merge the old and the new outcomes (worker/unit.py).
"""

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
from redis import Redis

from gradebox.outcome import ErrorKind, Outcome, read_outcomes
from gradebox.schemas import Batch
from storage import redis_keys
from storage.access.audit import Audit
from storage.batch_plan import AskTerms, Lane, Plan, PlannedGrader, UploadedBatch, Wanted, lane_of, scorer_of
from storage.batches import batch_record, feedback_grader, frozen_batch
from storage.batches.batches import Batches
from storage.batches.freezer import Freezer
from storage.batches.frozen_batch import Frozen
from storage.connection import clock, script, text
from storage.errors import Conflict, NotFound
from storage.graders.graders import Graders
from storage.idempotency import Once, ToStore, answered, to_store
from storage.idempotency import pack as idempotent
from storage.models.spending import Budget
from storage.outcomes.outcome_files import OutcomeFiles
from storage.queue.backlog import Backlog
from storage.statistics.outcome_tally import Tally, merged, pack, tally

_KINDS: tuple[ErrorKind, ...] = ("infrastructure", "timeout", "model")
"""The kinds of errors that may be retryable."""
_ROUNDS = 5
_MOST_ATTEMPTS = 60_000  # of a unit: a batch stores two bytes for the attempt that counts, and a retry may take some


def _terms(batch: Batch) -> AskTerms:
    one = batch.budget
    budget = None if one is None else Budget(one.usd, one.tokens)
    return AskTerms(budget, batch.replies)


def is_retryable(outcome: Outcome) -> bool:
    """Whether another attempt may give a score."""
    return outcome.error is not None and outcome.error.retryable


class _Unit(msgspec.Struct):
    """A unit to score again, as the script `retry_batch` takes it."""

    unit: int
    last: int
    """The highest attempt number so far."""
    grader: int
    outcomes: int
    """The number of outcomes that are scored again."""
    size: int
    """The size in bytes of the file with all outcomes of the unit."""
    errors: dict[str, int]


class _Again(msgspec.Struct):
    """A batch to restart, as the script `retry_batch` takes it."""

    id: str
    project: str
    waiting: int
    """Completions to be scored again, counted for each grader."""
    graders: int
    fields: list[str]
    """The fields of its record: name, value, name, ...."""
    sources: dict[str, str]
    holds: list[str]
    audit: list[str]
    units: list[_Unit]
    once: ToStore | None


class _Found(msgspec.Struct):
    """The outcomes of a batch, split up.

    Attributes:
        rest: for each grader, the tally of the outcomes that stay.
        units: the units with retryable outcomes.
        tallies: for each of these units, the tally of its retryable outcomes.
    """

    rest: list[Tally]
    units: list[_Unit]
    tallies: list[Tally]


class Retries:
    """The retries of the batches of all projects."""

    def __init__(
        self,
        redis: Redis,
        batches: Batches,
        graders: Graders,
        backlog: Backlog,
        freezer: Freezer,
        audit: Audit,
    ) -> None:
        self._redis = redis
        self._batches = batches
        self._graders = graders
        self._backlog = backlog
        self._freezer = freezer
        self._audit = audit
        self._retry = script(redis, "retry_batch")

    def begin(self, project: str, batch_id: str, call: Callable[[Lane, int], None], once: Once | None = None) -> Batch:
        """Restarts a finished batch that has retryable outcomes, then calls `call` with its lane and number of units.

        A batch that is running, or has no retryable outcomes, does not change, nor one that the request `once` has
        restarted before. Reads all outcomes, one chunk at a time: those of a million threads take seconds.

        Raises:
            NotFound: the project does not have this batch.
            KeyReused: `once` was used with another request.
            Conflict: it was cancelled, one of its graders was deleted, or it cannot be retried now.
            TooLarge, QueueFull: the project has too many completions waiting.
            OutcomesLost: the spool no longer has all of its outcomes.
            OSError: the outcomes could not be read.
        """
        for _ in range(_ROUNDS):
            batch = self._batches.get(project, batch_id)
            if answered(self._redis, once) is not None or batch.finished_at is None:
                return batch
            if batch.state != "finished":
                raise Conflict(
                    f"batch {batch_id!r} was {batch.state}, and only a finished one is retried: send its threads again"
                )
            if not any(batch.errors.get(kind) for kind in _KINDS):
                return batch
            self._freezer.freeze(batch_id)
            if (frozen := self._batches.frozen(batch_id)) is None:
                continue
            wanted = self._wanted(batch)
            standing = self._batches.standing_when_over(batch_id, frozen)  # another retry may begin meanwhile
            if standing is None or (again := self._again(batch, frozen, *standing, wanted, once)) is None:
                return self._batches.get(project, batch_id)
            units, told = again
            if self._retry(args=told):
                call(lane_of(wanted), units)
                return self._batches.get(project, batch_id)
        raise Conflict(f"batch {batch_id!r} is being changed by others, or its summary cannot be made: try again later")

    def _wanted(self, batch: Batch) -> list[Wanted]:
        try:
            if batch.feedback_of is not None:
                return [feedback_grader.wanted(self._graders, batch.project, batch.feedback_of)]
            return [
                Wanted(one.key, self._graders.version(batch.project, one.key, one.version), one.weight)
                for one in batch.graders
            ]
        except NotFound as error:
            raise Conflict(
                f"batch {batch.id!r} cannot be retried, because what it was scored by no longer exists: {error}"
            ) from error

    def _again(
        self,
        batch: Batch,
        frozen: Frozen,
        plan: Plan,
        attempts: list[int],
        wanted: list[Wanted],
        once: Once | None,
    ) -> tuple[int, list[bytes]] | None:
        """The number of units to score again, and the arguments of the script; None if nothing is retryable."""
        found = self._found(batch.id, plan, attempts, frozen)
        if not found.units:
            return None
        if max(one.last for one in found.units) > _MOST_ATTEMPTS:
            raise Conflict(f"batch {batch.id!r} was retried too often: score its threads in a new batch (`threads_of`)")
        waiting = sum(one.outcomes for one in found.units)
        self._backlog.check_again(batch.project, waiting)
        scorers = [scorer_of(one) for one in wanted]
        again = _Again(
            batch.id,
            batch.project,
            waiting,
            len(scorers),
            list(chain.from_iterable(self._fields(batch, plan, scorers, found, frozen.floor, wanted).items())),
            {one.source: of.version.model_dump_json() for one, of in zip(scorers, wanted, strict=True)},
            [one.source for one in scorers],
            self._audit.arguments(batch.project, "batch.retry", batch.id, f"{len(found.units)} chunks"),
            found.units,
            to_store(once),
        )
        table = frozen.table or self._batches.spool.read_table(batch.id, frozen.table_name)
        chunks, done = frozen_batch.part(table)
        tallies = map(pack, [*found.rest, *found.tallies])
        kept = b"" if once is None else idempotent(once, b"")  # a repeated request gets the batch as it is then
        return len(found.units), [msgspec.msgpack.encode(again), frozen.value, kept, chunks, done, *tallies]

    def _found(self, batch_id: str, plan: Plan, attempts: list[int], frozen: Frozen) -> _Found:
        found = _Found([Tally() for _ in plan.scorers], [], [])
        files = OutcomeFiles(self._batches, batch_id, plan)
        for unit, attempt in enumerate(attempts):
            number, _ = plan.unit(unit)
            with files.open(unit, attempt) as file:
                lines = file.read()
            outcomes = read_outcomes(lines)
            stay = tally([one for one in outcomes if not is_retryable(one)])
            found.rest[number] = merged([found.rest[number], stay])
            if again := [one for one in outcomes if is_retryable(one)]:
                counted = tally(again)
                errors = dict(counted.errors)
                found.units.append(_Unit(unit, max(attempt, frozen.floor), number, len(again), len(lines), errors))
                found.tallies.append(counted)
        return found

    def _fields(
        self, batch: Batch, plan: Plan, scorers: list[PlannedGrader], found: _Found, floor: int, wanted: list[Wanted]
    ) -> dict[str, str]:
        """The record of the batch. Its counts cover only the outcomes that stay."""
        new = UploadedBatch(
            batch.id, batch.project, wanted, plan.chunks, batch.created_by, _terms(batch), batch.feedback_of
        )
        fields = batch_record.new_record(new, scorers, batch.weighted, batch.created_at)
        errors: Counter[str] = Counter()
        for one in found.rest:
            errors.update(one.errors)
        started = batch.started_at or batch.created_at
        return {
            **fields,
            "state": "running",
            "done": str(sum(one.count for one in found.rest)),
            "scored": str(sum(one.scored for one in found.rest)),
            "next": fields["units"],
            "started_at": started.isoformat(),
            "retried_at": clock(self._redis).isoformat(),
            "retried": "1",  # the files of earlier attempts must be removed once the batch has ended
            "floor": str(floor),
            **{f"error:{kind}": str(count) for kind, count in errors.items()},
            **{f"past:{number}": self._past(batch, number) for number in range(len(scorers))},
        }

    def _past(self, batch: Batch, number: int) -> str:
        """The earlier batches that the scores of a grader are compared with. Ten are kept, maybe later ones alone."""
        grader, summary = batch.graders[number], batch.summary[number]
        kept: Any = self._redis.lrange(redis_keys.rewards(batch.project, grader.key), 0, -1)
        past = [text(one) for one in kept]
        entry = f"{grader.version}:{summary.scored}:{summary.mean!r}:"
        own = [
            place
            for place, one in enumerate(past)
            # An earlier gradebox wrote entries without the id of their batch.
            if one.endswith(f":{batch.id}") or (one.count(":") == 3 and one.startswith(entry))
        ]
        older = (one for one in past if one.split(":")[4:] < [batch.id])  # ids of batches sort by time
        return " ".join(past[: own[-1]] if own else older)
