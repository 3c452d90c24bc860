"""Makes graders and batches without a sandbox: storage does not check them."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from gradebox.outcome import Outcome, OutcomeError, Spent
from gradebox.schemas import Check, FeedbackOf, Report
from sandbox.environments import PYTHON
from storage import redis_keys
from storage.batch_plan import NO_TERMS, AskTerms, Lane, Plan, UploadedBatch, Wanted
from storage.connection import text
from storage.graders.grader_content import Proved
from storage.models.kept_replies import Keeping
from storage.models.spending import CountedAsk, arguments
from storage.outcomes import outcomes
from storage.outcomes.retries import is_retryable
from storage.queue.leases import Completed, Lease
from storage.spool.chunks import CHUNK_LINES, Cutter
from storage.statistics.outcome_tally import Tally, tally
from storage.store import Store

SOURCE = "async def grade(thread):\n    return 1.0\n"


def proved(source: str = SOURCE, timeout_s: float = 5.0, asks: Sequence[str] = ()) -> Proved:
    """A source, as if it had passed the five checks."""
    check = Check(name="syntax", passed=True, message="compiles", duration_ms=0.1)
    isolation: Literal["batch", "completion"] = "completion" if asks else "batch"
    report = Report(valid=True, checks=[check], isolation=isolation, asks=list(asks), outcomes=[])
    return Proved(source=source, isolation="auto", timeout_s=timeout_s, memory_mb=256, report=report, python=PYTHON)


def wanted(
    store: Store,
    key: str,
    weight: float | None = None,
    *,
    source: str = SOURCE,
    asks: Sequence[str] = (),
    project: str = "default",
    timeout_s: float = 5.0,
) -> Wanted:
    """Creates a grader for a batch. Graders of other keys have other sources."""
    store.graders.create(project, key, key, "", proved(f"# {key}\n{source}", timeout_s, asks))
    return Wanted(key, store.graders.version(project, key), weight)


def line(number: int) -> bytes:
    """The thread with this number, as a line of a payload."""
    return b'{"turns": [["assistant", "%d"]], "id": %d}\n' % (number, number)


def accept(
    store: Store,
    lines: int,
    *graders: Wanted,
    project: str = "default",
    terms: AskTerms = NO_TERMS,
    line: Callable[[int], bytes] = line,
    feedback_of: FeedbackOf | None = None,
) -> str:
    """Accepts a batch of this many threads."""
    payload = b"".join(map(line, range(lines)))
    batch_id = store.orphan_files.begin()
    cutter = Cutter(first_lines=CHUNK_LINES)
    cutter.feed(payload)
    with store.spool.writing_payload(batch_id) as file:
        file.write(payload)
    scorers = graders or [wanted(store, "exact")]
    new = UploadedBatch(batch_id, project, scorers, cutter.finish(), terms=terms, feedback_of=feedback_of)
    store.acceptance.accept(new, lambda pipe: None)
    return batch_id


def ended(redis: Redis) -> dict[str, str]:
    """The batches that are over and not kept, oldest first, with their entries of the stream."""
    entries: Any = redis.xrange(redis_keys.ENDED)
    return {text(fields[b""]): text(entry) for entry, fields in entries}


def over_since(store: Store, batch: str, seconds: float) -> None:
    """Sets the end of a batch that is over and not frozen to so many seconds ago."""
    since = ended(store.redis)
    since[batch] = f"{int((time.time() - seconds) * 1000)}-{len(since)}"
    store.redis.delete(redis_keys.ENDED)
    for one, entry in sorted(since.items(), key=lambda of: tuple(map(int, of[1].split("-")))):
        store.redis.xadd(redis_keys.ENDED, {"": one}, id=entry)
    store.redis.hset(redis_keys.batch(batch), "ended", since[batch])


class _MonthsAhead(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # the class of what it returns
        return datetime.now(tz) + timedelta(days=100)


@contextmanager
def ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of this machine, not that of Redis, is 100 days ahead for the store."""
    real_time = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real_time() + 100 * 86400)
        for name, module in list(sys.modules.items()):
            if name.startswith("storage.") and getattr(module, "datetime", None) is datetime:
                patch.setattr(module, "datetime", _MonthsAhead)
        yield


@contextmanager
def full(redis: Redis) -> Iterator[None]:
    """Redis has reached its `maxmemory`, as the first write shows."""
    redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            redis.set("more", 1)
        yield
    finally:
        redis.config_set("maxmemory", 0)


def claim(store: Store, lane: Lane = "") -> Lease:
    """Claims the next unit. Fails if there is none."""
    lease = store.leases.claim(lane=lane)
    assert lease is not None
    return lease


def plan_of(store: Store, batch: str) -> Plan:
    plan = store.batches.plan(batch)
    assert plan is not None
    return plan


def outcomes_of(store: Store, lease: Lease, *, score: float | None = None) -> list[Outcome]:
    """Outcomes of one unit. The score is the index, or the given score."""
    plan = plan_of(store, lease.batch)
    number, chunk = plan.unit(lease.unit)
    indices = range(chunk.first_index, chunk.first_index + chunk.lines)
    label = plan.scorers[number].label
    return [Outcome(index, label, float(index) if score is None else score, 0.5) for index in indices]


def failed(index: int, grader: str) -> Outcome:
    return Outcome(index, grader, None, 0.5, error=OutcomeError("exception", "boom"))


def passed_over(index: int, grader: str) -> Outcome:
    """An outcome of a thread that the grader does not apply to."""
    return Outcome(index, grader, None, 0.5, not_applicable="no documents")


def finish(store: Store, lease: Lease, outcomes: list[Outcome] | None = None) -> bool:
    """Writes and completes one unit as a worker does. Returns whether it counts. If the unit is scored again, all
    outcomes that are not new must be unchanged.
    """
    outcomes = outcomes_of(store, lease) if outcomes is None else outcomes
    number, _ = plan_of(store, lease.batch).unit(lease.unit)
    data = msgspec.json.Encoder().encode_lines(outcomes)
    store.spool.write_outcomes(lease.batch, {(lease.unit, lease.attempt): data})
    new = outcomes
    if lease.earlier:
        with store.spool.open_outcomes(lease.batch, lease.unit, lease.earlier) as file:
            earlier = msgspec.json.Decoder(Outcome).decode_lines(file.read())
        new = [outcome for outcome, before in zip(outcomes, earlier, strict=True) if is_retryable(before)]
    return bool(complete(store, lease, number, tally(new), len(data)))


def finish_all(store: Store, outcome: Callable[[Outcome], Outcome] = lambda made: made, lane: Lane = "") -> None:
    """Claims and completes all units, each with its outcomes as `outcome` changes them."""
    while lease := store.leases.claim(lane=lane):
        assert finish(store, lease, [outcome(made) for made in outcomes_of(store, lease)])


def complete(store: Store, lease: Lease, grader_number: int, counted: Tally, size: int = 0) -> Completed:
    (completed,) = store.leases.complete_all([(lease, grader_number, counted, size)])
    return completed


def complete_again(store: Store, lease: Lease) -> Completed:
    """Completes a unit again, as a worker does if the reply to the first call was lost."""
    number, _ = plan_of(store, lease.batch).unit(lease.unit)
    return complete(store, lease, number, tally(outcomes_of(store, lease)))


def lines_of(store: Store, batch: str, after: int = -1, limit: int | None = None) -> list[bytes]:
    """The outcomes of a batch, one line each."""
    return b"".join(outcomes.read(store.batches, batch, after, limit)).splitlines(keepends=True)


def spent_by_batch(store: Store, batch: str) -> dict[str, int]:
    """The counts of a batch's asks, of all graders. Costs are in billionths."""
    counts = {text(name): int(count) for name, count in store.redis.hgetall(redis_keys.spent_by_batch(batch)).items()}
    return {name: count for name, count in counts.items() if not name[0].isdigit()}


def spend(store: Store, batch: str, number: int = 0, spent: Spent = Spent(2, 1, 30, 3, 0.5)) -> None:  # noqa: B008
    """Counts what an ask cost for the grader with this number."""
    asked = CountedAsk("default", "model:judge", "polite", batch, number=number)
    store.spending.count(args=arguments(asked, Keeping(0, 1), spent))


def load_keys(redis: Redis, file: str) -> dict[str, Any]:
    """Replaces all keys of Redis with those that an older gradebox left, from a file. Returns its other members."""
    kept: dict[str, Any] = json.loads(Path(__file__).with_name(file).read_text())
    write: dict[str, Callable[[str, Any], object]] = {
        "string": lambda name, value: redis.set(name, value.encode("latin-1")),
        "hash": lambda name, value: redis.hset(name, mapping=value),
        "list": lambda name, value: redis.rpush(name, *value),
        "zset": lambda name, value: redis.zadd(name, value),
        "set": lambda name, value: redis.sadd(name, *value),
    }
    redis.flushdb()
    for name, ((kind, value),) in ((name, held.items()) for name, held in kept.pop("keys").items()):
        write[kind](name, value)
    return kept
