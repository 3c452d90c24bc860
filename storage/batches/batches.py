"""The records of batches: reading, keeping, cancelling and deleting them. What workers do is in leases.py."""

import logging
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Batch, BatchGrader, Summary, Version
from storage import redis_keys
from storage.access.audit import Audit
from storage.batch_plan import Lane, Plan, PlannedGrader
from storage.batches import batch_record
from storage.batches.frozen_batch import Frozen, part
from storage.batches.recorded_scores import RecordedScores
from storage.connection import clock, lua, read_snapshot, script, seconds, text, write_trouble
from storage.errors import CutOff, NotFound, OutcomesLost
from storage.models import spending
from storage.models.model_limits import ModelLimits
from storage.processes import Processes
from storage.spool import lost_files
from storage.spool.chunks import unpack
from storage.spool.spool import Spool
from storage.statistics.reward_warnings import entry
from storage.statistics.unit_tallies import Tallies

_log = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{20}")
_SWEEP_AGAIN_S = 60  # until then, a worker that had a unit of a deleted batch may still write its outcomes
_PAGE = 200  # batches that are read at once


class Batches:
    """The batches of all projects.

    Attributes:
        spool: has their threads and outcomes.
        recorded: the scores of their threads that were recorded from outside.
    """

    def __init__(
        self,
        redis: Redis,
        spool: Spool,
        audit: Audit,
        model_limits: ModelLimits,
        processes: Processes,
        recorded: RecordedScores,
    ) -> None:
        self.spool = spool
        self.recorded = recorded
        self._redis = redis
        self._processes = processes
        self._model_limits = model_limits
        self._audit = audit
        self._expire = script(redis, "expire_batches")
        self._tallies = Tallies(redis)

    def get(self, project: str, batch_id: str, *, summary: bool = True) -> Batch:
        """The current state of a batch.

        Raises:
            NotFound: there is none in this project.
        """
        found = self._read(batch_id, summary) if _ID.fullmatch(batch_id) else None
        if found is None or found.project != project:
            raise NotFound(f"there is no batch {batch_id!r} in project {project!r}: list the batches to see their ids")
        return found

    def find(self, batch_id: str) -> Batch | None:
        """A batch of any project, or None if it was deleted."""
        return self._read(batch_id, summary=True)

    def newest(
        self, project: str, limit: int, before: str | None = None, grader: str = "", version: int | None = None
    ) -> list[Batch]:
        """The newest batches first, without summaries; `before` continues after that batch.

        With `grader`, only the batches that it scores, in this `version` if one is given. All batches are searched for
        them.
        """
        found: list[Batch] = []
        while len(found) < limit:
            ids = self._ids(project, _PAGE if grader else limit, before)
            wanted = self._maybe_of(ids, grader, version) if grader else ids
            found += [one for one in self._shown(wanted) if not grader or _has_grader(one.graders, grader, version)]
            if not grader or len(ids) < _PAGE:
                break
            before = ids[-1]
        return found[:limit]

    def _maybe_of(self, ids: list[str], grader: str, version: int | None) -> list[str]:
        """These batches without the frozen ones that the grader did not score. Each of the others takes six times as
        long to read and build.
        """
        frozen: Any = self._redis.hmget(redis_keys.FROZEN, ids) if ids else []
        return [
            batch_id
            for batch_id, value in zip(ids, frozen, strict=True)
            if value is None or _has_grader(Frozen(value).scorers, grader, version)
        ]

    def _ids(self, project: str, count: int, before: str | None) -> list[str]:
        end = f"({before}" if before else "+"
        found: Any = self._redis.zrevrangebylex(redis_keys.batches(project), end, "-", start=0, num=count)
        return [text(one) for one in found]

    def _shown(self, ids: list[str]) -> list[Batch]:
        def ask(pipe: Pipeline) -> None:
            for batch_id in ids:
                batch_record.ask(pipe, batch_id)

        answers = read_snapshot(self._redis, ask)
        records = zip(ids, zip(*[iter(answers)] * 3, strict=True), strict=True)
        batches = (batch_record.standing(batch_id, *record) for batch_id, record in records)
        return [batch for batch in batches if batch is not None]

    def cancel(self, project: str, batch_id: str) -> Batch:
        """Cancels a batch that has not ended. Its outcomes so far stay readable.

        Raises:
            NotFound: there is none in this project.
        """
        if self.get(project, batch_id, summary=False).finished_at is None:
            self._run(project, batch_id, "cancel")
        return self.get(project, batch_id)

    def delete(self, project: str, batch_id: str) -> Batch:
        """Deletes the record of a batch. The janitor removes its files from the spool; until then, its id is in
        `redis_keys.GARBAGE`.

        Returns the batch as it was.

        Raises:
            NotFound: there is none in this project.
        """
        was = self.get(project, batch_id, summary=False)
        self._run(project, batch_id, "delete", str(seconds(self._redis) + _SWEEP_AGAIN_S))
        return was

    def keep(self, project: str, batch_id: str, kept: bool) -> Batch:
        """Keeps a batch beyond the retention time, or stops keeping it.

        Raises:
            NotFound: there is none in this project.
        """
        if self.get(project, batch_id, summary=False).kept != kept:
            self._run(project, batch_id, "keep", str(int(kept)))
        return self.get(project, batch_id)

    def _run(self, project: str, batch_id: str, way: str, *arguments: str) -> None:
        line = self._audit.arguments(project, f"batch.{way}", batch_id)
        self._redis.eval(lua(f"{way}_batch"), 0, batch_id, *arguments, *line)

    def expire(self, before: float, limit: int) -> int:
        """Deletes batches that ended before this time of Redis, except kept ones. Returns their number."""
        # Of a retention of more years than there are since 1970, the time is negative, which no stream has.
        swept = seconds(self._redis) + _SWEEP_AGAIN_S
        found: int = self._expire(args=[int(max(1.0, before) * 1000), limit, swept])
        return found

    def retried_at(self, batch_id: str) -> datetime | None:
        """When the last retry of a batch that is not frozen began. None if it was not retried."""
        found: Any = self._redis.hget(redis_keys.batch(batch_id), "retried_at")
        return None if found is None else datetime.fromisoformat(text(found))

    def plan(self, batch_id: str) -> Plan | None:
        """The plan of a batch, or None if it was deleted."""
        found = self._standing(batch_id)
        return found and found[0]

    def standing(self, batch_id: str) -> tuple[Plan, list[int]]:
        """The plan of a batch, and for each unit the attempt whose outcomes count, as of one moment.

        An attempt is 0 or missing if its unit has no outcomes yet or is being scored again.

        Raises:
            NotFound: the batch was deleted.
        """
        found = self._standing(batch_id)
        if found is None:
            raise NotFound(f"batch {batch_id!r} was deleted")
        return found[:2]

    def settled(self, batch_id: str) -> list[int] | None:
        """For each unit, the attempt whose outcomes count. None if the batch has not ended or was deleted."""
        found = self._standing(batch_id)
        return None if found is None or found[2] else found[1]

    def _standing(self, batch_id: str) -> tuple[Plan, list[int], bool] | None:
        """As `standing`, and whether the batch is still open. None if it was deleted."""

        def ask(pipe: Pipeline) -> None:
            pipe.hmget(redis_keys.batch(batch_id), "project", "graders", "sources", "trace", "terms", "weighted")
            self._ask_for_tables(pipe, batch_id)
            pipe.hget(redis_keys.FROZEN, batch_id)
            pipe.hkeys(redis_keys.attempts(batch_id))
            pipe.sismember(redis_keys.OPEN, batch_id)

        record, short, (table, done), frozen, lent, is_open = read_snapshot(self._redis, ask)
        project, scorers, sources, trace, terms, weighted = record
        table = short or table
        if frozen is not None:
            standing = self.standing_when_over(batch_id, Frozen(frozen))
            return standing and (*standing, False)
        if scorers is None or table is None:
            return None
        graders = batch_record.scorers_of(scorers, text(sources))
        attempts = batch_record.attempts_of(done)
        for unit in map(int, lent):
            if unit < len(attempts):
                attempts[unit] = 0
        also = text(trace or ""), batch_record.terms_of(terms), weighted is not None
        plan = Plan(text(project), graders, unpack(table), *also)
        return plan, attempts, bool(is_open)

    def standing_when_over(self, batch_id: str, frozen: Frozen) -> tuple[Plan, list[int]] | None:
        """As `standing`, as of this frozen record of the batch; None if it was deleted. The plan has no sources."""
        try:
            chunks, done = part(frozen.table or self.spool.read_table(batch_id, frozen.table_name))
        except (FileNotFoundError, CutOff) as error:
            now = self.frozen(batch_id)
            if now is None:
                return None  # it was deleted meanwhile
            if now.table_name == frozen.table_name and self.is_lost(now.batch(batch_id, summary=False)):
                _log.error("the table of batch %s is lost: %s", batch_id, error)
                raise OutcomesLost(
                    f"the table of the chunks of batch {batch_id!r} is gone from the spool, so that its threads and "
                    "outcomes cannot be read: send its threads again as a new batch"
                ) from error
            raise
        plan = Plan(frozen.project, frozen.scorers, unpack(chunks), weighted=frozen.weighted)
        return plan, batch_record.attempts_of(done)

    def is_lost(self, batch: Batch) -> bool:
        """Whether a file of this batch that is missing or cut off stays so."""
        return lost_files.is_lost(batch, self.spool, clock(self._redis))

    def tables(self, batch_id: str) -> tuple[bytes, bytes] | None:
        """The chunk table of a batch that is not frozen, and the attempts that count, both packed."""
        short, (table, done) = read_snapshot(self._redis, lambda pipe: self._ask_for_tables(pipe, batch_id))
        chunks = short or table
        return None if chunks is None else (chunks, done or b"")

    def _ask_for_tables(self, pipe: Pipeline, batch_id: str) -> None:
        """Queues reads of both tables. A short chunk table is a field of the batch's record, a long one has a separate
        key.
        """
        pipe.hget(redis_keys.batch(batch_id), "chunks")
        pipe.mget(redis_keys.chunks(batch_id), redis_keys.done(batch_id))

    def frozen(self, batch_id: str) -> Frozen | None:
        """The frozen record of a batch, or None if the batch is not frozen."""
        value: Any = self._redis.hget(redis_keys.FROZEN, batch_id)
        return None if value is None else Frozen(value)

    def source(self, scorer: PlannedGrader) -> Version | None:
        """The version that a grader of a batch scores with, or None if no open batch uses it any more."""
        value = self._redis.hget(redis_keys.SOURCES, scorer.source)
        return None if value is None else Version.model_validate_json(value)

    def rewards(self, batch: Batch) -> list[str]:
        """What is remembered of a batch when it is frozen: key of a grader, entry, ….

        Empty if the batch was cancelled, is of feedback, or was remembered before: its record then has `past:0`.
        """
        if (
            batch.state != "finished"
            or batch.feedback_of is not None
            or self._redis.hexists(redis_keys.batch(batch.id), "past:0")
        ):
            return []
        counted = self._tallies.of(batch.id, len(batch.graders))
        entries = [(one.key, entry(one.version, of, batch.id)) for one, of in zip(batch.graders, counted, strict=True)]
        return [part for key, kept in entries if kept is not None for part in (key, kept)]

    def _read(self, batch_id: str, summary: bool, graders: int = 1) -> Batch | None:
        """A batch of any project, or None if it was deleted. All of it is as of one moment.

        `graders`: of how many the statistics are read. Most batches have one, and only the record tells if there are
        more.
        """

        def ask(pipe: Pipeline) -> None:
            batch_record.ask(pipe, batch_id)
            if summary:
                pipe.time()
                pipe.hgetall(redis_keys.recorded(batch_id))
                pipe.hgetall(redis_keys.spent_by_batch(batch_id))
                for number in range(graders):
                    self._tallies.ask(pipe, batch_id, number)

        record, underway, frozen, *rest = read_snapshot(self._redis, ask)
        if not summary:
            return batch_record.standing(batch_id, record, underway, frozen)
        (whole, micros), recorded, spent, *kept = rest
        if frozen is not None:
            batch = Frozen(frozen).batch(batch_id, summary=True)
            return self._with(recorded, batch_record.with_spent(batch, spent))
        if not record:
            return None
        fields = batch_record.texts(record)
        if (count := int(fields["grader_count"])) > graders:
            return self._read(batch_id, summary, count)
        made = self._summaries(batch_id, fields, spent, kept)
        if made is None:
            return self._read(batch_id, summary)  # it was frozen or deleted meanwhile
        asks = batch_record.asks_of(fields)
        waits_for = self._model_limits.awaited(fields["project"], asks) if asks else []
        has_waited = batch_record.has_waited(fields, int(whole) + int(micros) / 1e6)
        trouble = self._trouble("asking" if fields.get("lane") else "") if has_waited else None
        shown = batch_record.shown(batch_id, fields, sum(map(int, underway)), made, waits_for, trouble)
        return self._with(recorded, shown)

    def _summaries(
        self, batch_id: str, fields: dict[str, str], spent: dict[bytes, bytes], kept: Sequence[Any]
    ) -> list[Summary | None] | None:
        """The summary of each grader of a batch that is not frozen; None in place of one that cannot be made. Returns
        None if the batch was frozen or deleted meanwhile.

        `kept` has the replies about the tallies of each grader.
        """
        scorers = batch_record.scorers_of(fields["graders"], fields["sources"])
        rewards: list[list[bytes]] = [[] for _ in scorers]
        if fields["state"] == "finished":

            def ask(pipe: Pipeline) -> None:
                for scorer in scorers:
                    pipe.lrange(redis_keys.rewards(fields["project"], scorer.key), 0, -1)
                pipe.exists(redis_keys.batch(batch_id))

            *rewards, is_there = read_snapshot(self._redis, ask)
            if not is_there:  # the rewards have the results of this batch
                return None
        return [
            batch_record.kept_summary(
                scorer,
                kept[number],
                batch_record.past_of(fields, number, rewards[number]),
                spending.of_grader(spent, number),
            )
            for number, scorer in enumerate(scorers)
        ]

    def _with(self, recorded: dict[bytes, bytes], batch: Batch) -> Batch:
        """The batch with the summaries of the scores that were recorded from outside."""
        if not recorded:
            return batch
        return batch.model_copy(update={"recorded": self.recorded.summaries(recorded)})

    def _trouble(self, lane: Lane) -> str | None:
        """The reason why batches of this lane make no progress, if there is one."""
        queue = lane or "plain"
        if workers := self._processes.workers(lane):
            if not all(worker.trouble for worker in workers):
                return None
            return f"no worker of the queue `{queue}` can work now: tell the service's operator, whose log says why"
        if (trouble := write_trouble(self._redis)) is not None:  # workers cannot report then
            return f"{trouble}: tell the service's operator"
        return f"no worker of the queue `{queue}` is running: see its log, or start `gradebox worker --queue {queue}`"


def _has_grader(graders: Iterable[BatchGrader | PlannedGrader], key: str, version: int | None) -> bool:
    return any(one.key == key and version in (None, one.version) for one in graders)
