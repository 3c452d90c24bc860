"""The records of batches: accepting, reading, cancelling and deleting them. What workers do is in leases.py."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import WatchError

from gradebox.schemas import Batch, BatchGrader, Summary, Version
from storage import accepted, names
from storage.answers import Once, answered, keep
from storage.audit import Audit
from storage.backlog import Backlog
from storage.chunks import Chunk, pack, unpack
from storage.connection import lua, script, text
from storage.errors import KeyReused, NotFound, QuotaExceeded, Refused
from storage.frozen import Frozen, part
from storage.leftovers import Leftovers
from storage.plans import Plan, Scorer, Wanted
from storage.rewards import read_past
from storage.spool import Spool
from storage.summary import NOT_MADE, summary_of, weighted_mean
from storage.tally import Tally, error_counts, from_redis

_ID = re.compile(r"[0-9a-f]{20}")
_SWEEP_AGAIN_S = 60  # a worker that had a unit of a deleted batch may write its outcomes until then


class Batches:
    """The batches of all projects."""

    def __init__(self, redis: Redis, spool: Spool, backlog: Backlog, leftovers: Leftovers, audit: Audit) -> None:
        self._redis = redis
        self._spool = spool
        self._audit = audit
        self._backlog = backlog
        self._leftovers = leftovers
        self._delete = script(redis, "delete")

    def accept(
        self,
        batch_id: str,
        project: str,
        wanted: Sequence[Wanted],
        chunks: list[Chunk],
        also: Callable[[Pipeline], None],
        by: str | None = None,
        once: Once | None = None,
    ) -> Batch:
        """Makes the batch known, and does `also`, which enqueues the jobs, in the same transaction.

        `by` is the id of the API key that it was made with. Where the request was done already, what it was answered
        then is answered again. The files of a batch that is not accepted are swept away.

        Raises:
            TooLarge: it is more than a project may ever have waiting.
            QueueFull: the project has so much waiting that it does not fit now.
            QuotaExceeded: the project keeps as much as it may.
            KeyReused: `once` came with another request.
        """
        try:
            self._backlog.check(project, _threads(chunks) * len(wanted), _size(chunks))
            batch = self._accept(batch_id, project, wanted, chunks, also, by, once)
        except (Refused, QuotaExceeded, KeyReused):
            self._leftovers.condemn(batch_id)
            raise
        if batch.id != batch_id:
            self._leftovers.condemn(batch_id)
        return batch

    def _accept(
        self,
        batch_id: str,
        project: str,
        wanted: Sequence[Wanted],
        chunks: list[Chunk],
        also: Callable[[Pipeline], None],
        by: str | None,
        once: Once | None,
    ) -> Batch:
        while True:
            with self._redis.pipeline() as pipe, suppress(WatchError):
                if once:
                    pipe.watch(once.name)  # type: ignore[no-untyped-call]  # in redis-py
                    if (answer := answered(pipe, once)) is not None:
                        return accepted.read(answer)
                pipe.multi()
                batch = _write(pipe, batch_id, project, wanted, chunks, by)
                self._audit.write(pipe, project, "batch.create", batch_id, ", ".join(one.label for one in wanted))
                keep(pipe, once, accepted.pack(batch))
                also(pipe)
                pipe.execute()
                return batch

    def note_trace(self, pipe: Pipeline, batch_id: str, trace: str) -> None:
        """Notes with a batch that is accepted in this transaction which trace it belongs to."""
        pipe.hset(names.batch(batch_id), "trace", trace)

    def has_answered(self, once: Once) -> bool:
        """Whether a request with this Idempotency-Key was answered before, be it the same one or another."""
        return bool(self._redis.exists(once.name))

    def answered(self, once: Once | None) -> Batch | None:
        """What was answered to the same request before, if it was. Raises KeyReused."""
        answer = answered(self._redis, once)
        return None if answer is None else accepted.read(answer)

    def get(self, project: str, batch_id: str, *, summary: bool = True) -> Batch:
        """One batch as it stands now.

        Raises:
            NotFound: there is none in this project.
        """
        found = self._read(batch_id, summary) if _ID.fullmatch(batch_id) else None
        if found is None or found.project != project:
            raise NotFound(f"there is no batch {batch_id!r} in project {project!r}: list the batches to see their ids")
        return found

    def find(self, batch_id: str) -> Batch | None:
        """One batch of whichever project, or None where it is gone."""
        return self._read(batch_id, summary=True)

    def newest(self, project: str, limit: int, before: str | None = None) -> list[Batch]:
        """The newest batches first, without summaries; `before` continues after that batch."""
        end = f"({before}" if before else "+"
        found: Any = self._redis.zrevrangebylex(names.batches(project), end, "-", start=0, num=limit)
        ids = [text(one) for one in found]
        with self._redis.pipeline() as pipe:
            for batch_id in ids:
                _ask_record(pipe, batch_id)
            answers = pipe.execute()
        records = zip(ids, zip(*[iter(answers)] * 4, strict=True), strict=True)
        batches = (_standing(batch_id, *record, summary=False) for batch_id, record in records)
        return [batch for batch in batches if batch is not None]

    def cancel(self, project: str, batch_id: str) -> Batch:
        """Ends a batch that is not over; its outcomes so far can still be read.

        Raises:
            NotFound: there is none in this project.
        """
        if self.get(project, batch_id, summary=False).finished_at is None:
            self._run(project, batch_id, "cancel", _now())
        return self.get(project, batch_id)

    def delete(self, project: str, batch_id: str) -> Batch:
        """Forgets a batch; its files are the spool's to remove, and `garbage` names them until they are gone.

        Returns the batch as it was.

        Raises:
            NotFound: there is none in this project.
        """
        was = self.get(project, batch_id, summary=False)
        self._run(project, batch_id, "delete", str(time.time() + _SWEEP_AGAIN_S), _now())
        return was

    def keep(self, project: str, batch_id: str, kept: bool) -> Batch:
        """Keeps a batch beyond its time, or no longer.

        Raises:
            NotFound: there is none in this project.
        """
        if self.get(project, batch_id, summary=False).kept != kept:
            self._run(project, batch_id, "keep", str(int(kept)))
        return self.get(project, batch_id)

    def _run(self, project: str, batch_id: str, way: str, *arguments: str) -> None:
        with self._redis.pipeline() as pipe:
            pipe.eval(lua(way), 0, batch_id, *arguments)
            self._audit.write(pipe, project, f"batch.{way}", batch_id)
            pipe.execute()

    def expire(self, before: float, limit: int) -> int:
        """Forgets batches that were over before this time, the kept ones aside; how many."""
        found: list[Any] = self._redis.zrangebyscore(names.ENDED, "-inf", f"({before}", start=0, num=limit)
        for batch_id in found:
            self._delete(args=[batch_id, time.time() + _SWEEP_AGAIN_S, _now(), before])
        return len(found)

    def plan(self, batch_id: str) -> Plan | None:
        """What the batch consists of, or None where it is gone."""
        found = self.standing(batch_id)
        return found and found[0]

    def standing(self, batch_id: str) -> tuple[Plan, list[int]] | None:
        """What the batch consists of, and for each unit the attempt whose outcomes count, from one moment: 0, or no
        entry, where there is none yet. None where the batch is gone.
        """
        with self._redis.pipeline() as pipe:
            pipe.hmget(names.batch(batch_id), "project", "graders", "trace")
            pipe.mget(names.chunks(batch_id), names.done(batch_id), names.frozen(batch_id))
            (project, scorers, trace), (table, done, frozen) = pipe.execute()
        if frozen is not None:
            return self._standing_when_over(batch_id, Frozen(frozen))
        if scorers is None or table is None:
            return None
        graders = msgspec.json.decode(scorers, type=list[Scorer])
        return Plan(text(project), graders, unpack(table), text(trace or "")), _attempts(done)

    def _standing_when_over(self, batch_id: str, frozen: Frozen) -> tuple[Plan, list[int]] | None:
        table = frozen.table
        try:
            chunks, done = part(self._spool.read_table(batch_id) if table is None else table)
        except FileNotFoundError:
            if self._redis.exists(names.frozen(batch_id)):
                raise
            return None  # it was deleted meanwhile
        return Plan(frozen.project, frozen.scorers, unpack(chunks)), _attempts(done)

    def tables(self, batch_id: str) -> tuple[bytes, bytes] | None:
        """The chunks of a batch that is not frozen, and what counts of its units, packed."""
        found: Any = self._redis.mget(names.chunks(batch_id), names.done(batch_id))
        chunks, done = found
        return None if chunks is None else (chunks, done or b"")

    def source(self, scorer: Scorer) -> Version | None:
        """What a grader of a batch scores with, or None where no batch needs it any more."""
        value = self._redis.hget(names.SOURCES, scorer.source)
        return None if value is None else Version.model_validate_json(value)

    def attempts(self, batch_id: str) -> list[int]:
        """For each unit, the attempt whose outcomes count, as `standing` says it."""
        standing = self.standing(batch_id)
        return standing[1] if standing else []

    def _read(self, batch_id: str, summary: bool) -> Batch | None:
        with self._redis.pipeline() as pipe:
            _ask_record(pipe, batch_id)
            if summary:  # most batches have one grader: its part comes with the same question
                _ask_statistics(pipe, batch_id, 0)
            record, underway, frozen, ended, *statistics = pipe.execute()
            if summary and record and int(record[b"grader_count"]) > 1:
                for number in range(1, int(record[b"grader_count"])):
                    _ask_statistics(pipe, batch_id, number)
                pipe.exists(names.batch(batch_id))
                *more, is_there = pipe.execute()
                if not is_there:  # it was frozen meanwhile, or deleted
                    return self._read(batch_id, summary)
                statistics += more
        return _standing(batch_id, record, underway, frozen, ended, statistics, summary=summary)


def _ask_record(pipe: Pipeline, batch_id: str) -> None:
    pipe.hgetall(names.batch(batch_id))
    pipe.hvals(names.underway(batch_id))
    pipe.get(names.frozen(batch_id))
    pipe.zscore(names.ENDED, batch_id)


def _standing(
    batch_id: str,
    record: Mapping[bytes | str, bytes | str],
    underway: Sequence[bytes],
    frozen: bytes | None,
    ended: float | None,
    statistics: Sequence[Mapping[bytes | str, bytes | str]] = (),
    *,
    summary: bool,
) -> Batch | None:
    """A batch from what `_ask_record` was answered, or None where it is gone."""
    if frozen is not None:
        return Frozen(frozen).batch(batch_id, kept=ended is None, summary=summary)
    if not record:
        return None
    fields = _texts(record)
    return _batch(batch_id, fields, sum(map(int, underway)), _summaries(fields, statistics) if summary else [])


def _ask_statistics(pipe: Pipeline, batch_id: str, grader_number: int) -> None:
    pipe.hgetall(names.stats(batch_id, grader_number))
    pipe.hgetall(names.values(batch_id, grader_number))


def _summaries(fields: dict[str, str], statistics: Sequence[Mapping[bytes | str, bytes | str]]) -> list[Summary | None]:
    scorers = msgspec.json.decode(fields["graders"], type=list[Scorer])
    return [
        summary_of(scorer.label, scorer.weight, from_redis(stats, values), read_past(text(stats.get(b"past", b""))))
        for scorer, stats, values in zip(scorers, statistics[::2], statistics[1::2], strict=True)
    ]


def _attempts(packed: bytes | None) -> list[int]:
    packed = packed or b""
    return [int.from_bytes(packed[i : i + 2]) for i in range(0, len(packed), 2)]


def _write(
    pipe: Pipeline, batch_id: str, project: str, wanted: Sequence[Wanted], chunks: list[Chunk], by: str | None
) -> Batch:
    """The record of a new batch. Returns what it is when it is accepted."""
    scorers = [_hold(pipe, one) for one in wanted]
    fields = _fields(project, scorers, chunks, by)
    pipe.hset(names.batch(batch_id), mapping=fields)
    pipe.set(names.chunks(batch_id), pack(chunks))
    pipe.zadd(names.batches(project), {batch_id: 0})
    # As text: a Redis that was started again meanwhile would not know it by its hash.
    pipe.eval(lua("enter"), 0, batch_id, fields["total"], fields["bytes"])
    pipe.sadd(names.OPEN, batch_id)
    pipe.zrem(names.UPLOADS, batch_id)
    return _batch(batch_id, fields, 0, [summary_of(one.label, one.weight, Tally()) for one in scorers])


def _hold(pipe: Pipeline, wanted: Wanted) -> Scorer:
    """Keeps what the grader scores with until the batch is over, also if the grader is deleted before."""
    version = wanted.version
    text = version.model_dump_json()
    source = hashlib.sha256(text.encode()).hexdigest()
    pipe.hsetnx(names.SOURCES, source, text)
    pipe.hincrby(names.HOLDS, source, 1)
    return Scorer(wanted.key, version.number, wanted.weight, source)


def _threads(chunks: list[Chunk]) -> int:
    return chunks[-1].first_index + chunks[-1].lines


def _size(chunks: list[Chunk]) -> int:
    return chunks[-1].offset + chunks[-1].length


def _fields(project: str, scorers: list[Scorer], chunks: list[Chunk], by: str | None) -> dict[Any, Any]:
    threads = _threads(chunks)
    return {
        "project": project,
        "state": "queued",
        "graders": msgspec.json.encode(scorers),
        "grader_count": len(scorers),
        "sources": " ".join(scorer.source for scorer in scorers),
        "threads": threads,
        "bytes": _size(chunks),
        "total": threads * len(scorers),
        "done": 0,
        "scored": 0,
        "units": len(chunks) * len(scorers),
        "next": 0,
        "created_at": _now(),
        **({"created_by": by} if by else {}),
    }


def _batch(batch_id: str, fields: dict[str, str], underway: int, made: Sequence[Summary | None]) -> Batch:
    scorers = msgspec.json.decode(fields["graders"], type=list[Scorer])
    summaries = [summary for summary in made if summary is not None]
    return Batch.model_validate(
        {
            **{
                name: fields.get(name)
                for name in ("project", "state", "created_by", "created_at", "started_at", "finished_at")
            },
            **{name: int(fields[name]) for name in ("threads", "total", "done", "scored")},
            "id": batch_id,
            "kept": "kept" in fields,
            "underway": underway,
            "graders": [BatchGrader(key=one.key, version=one.version, weight=one.weight) for one in scorers],
            "errors": error_counts(fields),
            "weighted_mean": weighted_mean(summaries) if len(summaries) == len(scorers) else None,
            "summary": summaries,
            "summary_error": NOT_MADE if len(summaries) < len(made) else None,
        }
    )


def _texts(fields: Mapping[bytes | str, bytes | str]) -> dict[str, str]:
    return {text(name): text(value) for name, value in fields.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat()
