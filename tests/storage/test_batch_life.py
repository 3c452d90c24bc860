"""Random operations of many workers and users on batches, also between the steps of each other, against a plain model.

After each operation, everything that the store says of every batch must be what the model says.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from redis import Redis

from gradebox.outcome import Outcome, OutcomeError, read_outcomes
from gradebox.schemas import Batch
from storage import redis_keys
from storage.batch_plan import UploadedBatch
from storage.connection import check_format, script, text
from storage.errors import AttemptWritten, Conflict, NotFound
from storage.idempotency import once
from storage.janitor import Janitor
from storage.outcomes import outcomes
from storage.outcomes.retries import is_retryable
from storage.queue.backlog import Waiting
from storage.queue.leases import Completed, Lease
from storage.spool.chunks import Cutter
from storage.spool.spool import Spool
from storage.statistics.outcome_tally import tally
from storage.store import Store
from tests.storage.making import line, wanted

STEPS = 300
CHUNK = 3
PROJECTS = ("default", "other")
_encoder = msgspec.json.Encoder()


class _Between:
    """Runs another operation before some steps of an operation, until the step that decides its result."""

    def __init__(self, chance: Callable[[], bool]) -> None:
        self._chance = chance
        self._operate: Callable[[], None] | None = None

    @contextmanager
    def steps(self, operate: Callable[[], None] | None) -> Iterator[None]:
        before, self._operate = self._operate, operate
        try:
            yield
        finally:
            self._operate = before

    def step(self, *, decides: bool = False) -> None:
        if (operate := self._operate) is None:
            return
        if self._chance():
            with self.steps(None):
                operate()
        if decides:
            self._operate = None


class _Redis(Redis):
    between: _Between | None = None
    reading = ""  # the digest of the script that only reads

    def execute_command(self, *words: Any, **options: Any) -> Any:
        if self.between is not None:
            self.between.step(decides=words[0] == "EVAL" or (words[0] == "EVALSHA" and words[1] != self.reading))
        return super().execute_command(*words, **options)  # type: ignore[no-untyped-call]


class _Spool(Spool):
    between: _Between | None = None

    def open_outcomes(self, batch_id: str, unit: int, attempt: int) -> IO[bytes]:
        if self.between is not None:
            self.between.step()
        return super().open_outcomes(batch_id, unit, attempt)


@dataclass
class _Known:
    """What the model knows of a batch."""

    id: str
    project: str
    threads: int
    labels: list[str]
    size: int
    state: str = "open"
    kept: bool = False
    units: dict[int, list[Outcome]] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)  # units whose retryable outcomes do not count now
    retried: bool = False  # and not over
    recorded: dict[int, Outcome] = field(default_factory=dict)

    @property
    def chunks(self) -> int:
        return -(-self.threads // CHUNK)

    @property
    def total(self) -> int:
        return self.threads * len(self.labels)

    def indices(self, unit: int) -> range:
        first = unit % self.chunks * CHUNK
        return range(first, min(first + CHUNK, self.threads))

    def counting(self) -> list[Outcome]:
        return [
            one for unit, some in self.units.items() for one in some if unit not in self.again or not is_retryable(one)
        ]

    def stored(self) -> int:
        files = [one for some in self.units.values() for one in some] + [*self.recorded.values()]
        return self.size + len(_encoder.encode_lines(files))

    def lines(self) -> list[bytes]:
        found = []
        for chunk in range(self.chunks):
            units = range(chunk, self.chunks * len(self.labels), self.chunks)
            if any(unit not in self.units or unit in self.again for unit in units):
                if self.state == "open":
                    break
                continue
            for place, index in enumerate(self.indices(chunk)):
                found += [self.units[unit][place] for unit in units]
                found += [self.recorded[index]] if index in self.recorded else []
        return [_encoder.encode(one) for one in found]

    def end_if_done(self) -> bool:
        """Ends the batch if no unit is left. Returns whether it is."""
        if len(self.units) < self.chunks * len(self.labels) or self.again:
            return False
        self.state, self.retried = "finished", False
        return True


def _unless_deleted(operation: Callable[["_Life", _Known], None]) -> Callable[["_Life"], None]:
    """An operation on some batch that may be deleted meanwhile; half of them are on the same one as the last."""

    @wraps(operation)
    def run(life: "_Life") -> None:
        if not life.batches:
            return
        batch = life.random.choice([*life.batches.values()])
        if life.random.random() < 0.5:
            batch = life.batches.get(life.last, batch)
        life.last = batch.id
        try:
            operation(life, batch)
        except NotFound:
            assert batch.id not in life.batches

    return run


class _Life:
    def __init__(self, store: Store, between: _Between, chosen: random.Random) -> None:
        self.store, self.random, self.between = store, chosen, between
        self.graders = {project: [wanted(store, key, project=project) for key in "xy"] for project in PROJECTS}
        self.batches: dict[str, _Known] = {}
        self.leases: list[Lease] = []
        self.completed: list[tuple[Any, Completed]] = []
        self.numbers = count(1)
        self.recording: list[str] = []  # batches
        self.last = ""  # batch
        self.log: list[str] = []

    def held(self) -> list[Lease]:
        return [lease for lease in self.leases if self.is_held(lease)]

    def is_held(self, lease: Lease) -> bool:
        return self.store.redis.zscore(redis_keys.LEASES, str(lease)) is not None

    # What users do.

    def accept(self) -> None:
        project, threads = self.random.choice(PROJECTS), self.random.randint(1, 8)
        graders = self.graders[project][: self.random.randint(1, 2)]
        payload = b"".join(map(line, range(threads)))
        batch_id = self.store.orphan_files.begin()
        with self.store.spool.writing_payload(batch_id) as file:
            file.write(payload)
        cutter = Cutter(first_lines=CHUNK, chunk_lines=CHUNK)
        cutter.feed(payload)
        request = once(project, "key", batch_id, b"", 600)
        chunks = cutter.finish()
        labels = [f"{one.key}@1" for one in graders]
        new = UploadedBatch(batch_id, project, graders, chunks)
        made = self.store.acceptance.accept(new, lambda pipe: None, request)
        assert made.id == batch_id
        self.batches[batch_id] = _Known(batch_id, project, threads, labels, len(payload))
        if self.random.random() < 0.3:  # as when the reply was lost
            again = self.store.acceptance.accept(new, lambda pipe: None, request)
            assert again.id == batch_id

    @_unless_deleted
    def cancel(self, batch: _Known) -> None:
        began = len(self.log)
        shown = self.store.batches.cancel(batch.project, batch.id)
        if shown.finished_at is None:  # it had ended, and was retried before it was read again
            assert "retry" in self.log[began:]
            return
        if batch.state == "open":
            batch.state = "finished" if batch.retried else "cancelled"
            batch.again, batch.retried = set(), False
        assert shown.state == batch.state

    @_unless_deleted
    def delete(self, batch: _Known) -> None:
        if self.random.random() < 0.5:
            self.store.batches.delete(batch.project, batch.id)
            self.batches.pop(batch.id, None)

    @_unless_deleted
    def keep(self, batch: _Known) -> None:
        with self.between.steps(None):
            batch.kept = not batch.kept
            self.store.batches.keep(batch.project, batch.id, batch.kept)

    @_unless_deleted
    def retry(self, batch: _Known) -> None:
        called: list[int] = []
        try:
            self.store.retries.begin(batch.project, batch.id, lambda lane, units: called.append(units))
        except Conflict:
            return
        if called:
            assert batch.state == "finished"
            batch.again = {unit for unit, some in batch.units.items() if any(map(is_retryable, some))}
            batch.state, batch.retried = "open", True
            assert called == [len(batch.again)]

    @_unless_deleted
    def record(self, batch: _Known) -> None:
        indices = sorted(self.random.sample(range(batch.threads), self.random.randint(1, batch.threads)))
        scores = [Outcome(index, "human@1", float(next(self.numbers)), 0.0) for index in indices]
        self.recording.append(batch.id)
        try:
            self.store.recorded.record(batch.project, batch.id, scores)
        except Conflict:
            return
        finally:
            self.recording.remove(batch.id)
        batch.recorded |= {one.index: one for one in scores}

    @_unless_deleted
    def read(self, batch: _Known) -> None:
        """What is shown belongs to one moment, whatever happens while it is read."""
        shown = self.store.batches.get(batch.project, batch.id)
        assert sum(one.count for one in shown.summary) == shown.done, shown.summary
        assert shown.scored + shown.not_applicable + sum(shown.errors.values()) == shown.done
        assert shown.state != "finished" or shown.done == shown.total
        found = self._lines(batch)
        places = [(one.index, [*batch.labels, "human@1"].index(one.grader)) for one in read_outcomes(b"\n".join(found))]
        assert places == sorted(set(places))

    # What workers and the janitor do.

    def claim(self) -> None:
        with self.between.steps(None):
            lease = self.store.leases.claim(self.random.choice(("", "", "", "projects", "batches")))
            if lease is not None:
                assert self.batches[lease.batch].state == "open"
                assert (lease.batch, lease.unit) not in {(one.batch, one.unit) for one in self.held()}
                self.leases.append(lease)

    def finish(self) -> None:
        if self.leases and (scored := self._score(lease := self._take())):
            new, counted, _ = scored
            batch = self.batches.get(lease.batch)
            if batch is None or not self._write(lease, new):
                return
            size = len(_encoder.encode_lines(new))
            unit = (lease, lease.unit // batch.chunks, tally(counted), size)
            with self.between.steps(None):
                may_count = self.is_held(lease) and not self._is_frozen(batch)
                (result,) = self.store.leases.complete_all([unit])
            self._counted(batch, lease, new, result, may_count)
            self.completed.append((unit, result))

    def _counted(self, batch: _Known, lease: Lease, new: list[Outcome], result: Completed, may_count: bool) -> None:
        assert bool(result) == (may_count and batch.state != "finished")
        if result:
            batch.units[lease.unit] = new
            batch.again.discard(lease.unit)
            if batch.state == "open":
                assert (result == Completed.FINISHED) == batch.end_if_done()

    def finish_again(self) -> None:
        """The reply was lost."""
        if self.completed:
            unit, result = self.random.choice(self.completed)
            with self.between.steps(None):
                (again,) = self.store.leases.complete_all([unit])
            assert result or not again

    def release(self) -> None:
        if self.leases and (scored := self._score(lease := self._take())):
            new, _, kept = scored
            stored = self.random.randrange(kept, len(new)) if self.random.random() < 0.6 else 0
            if stored <= kept or not self._write(lease, new[:stored]):
                stored = 0
            with self.between.steps(None):
                batch, is_held = self.batches.get(lease.batch), self.is_held(lease)
                tried = not stored and self.random.random() < 0.5
                results = [self.store.leases.release(lease, tried=tried, outcomes=stored) for _ in range(2)]
            continues = bool(is_held and stored and batch is not None and batch.state == "open")
            assert results == [continues, continues]

    def keep_earlier(self) -> None:
        if again := [lease for lease in self.leases if lease.earlier]:
            self.leases.remove(lease := self.random.choice(again))
            with self.between.steps(None):
                batch, is_held = self.batches.get(lease.batch), self.is_held(lease)
                results = [self.store.leases.keep_earlier(lease) for _ in range(2)]
            ends = False
            if batch is not None and is_held and batch.state == "open":
                batch.again.discard(lease.unit)
                ends = batch.end_if_done()
            assert results == [ends, ends]

    def lose(self) -> None:
        """A worker stops, or is too slow: its lease runs out."""
        with self.between.steps(None):
            if held := self.held():
                self.store.redis.zadd(redis_keys.LEASES, {str(self.random.choice(held)): 1}, xx=True)
                self.store.leases.beat([])

    @_unless_deleted
    def freeze(self, batch: _Known) -> None:
        self.store.freezer.freeze(batch.id)

    def tidy(self) -> None:
        """The janitor comes long after those that write files of a batch."""
        with self.between.steps(None):
            used, redis = {*self.recording, *(lease.batch for lease in self.leases)}, self.store.redis
            for name in (redis_keys.UNTIDY, redis_keys.GARBAGE, redis_keys.UNFROZEN):
                members: Any = redis.zrange(name, 0, -1)
                if idle := [text(one) for one in members if text(one) not in used]:
                    redis.zadd(name, dict.fromkeys(idle, 1))
            Janitor(self.store, None).look()

    def _take(self) -> Lease:
        lease = self.random.choice(self.leases)
        self.leases.remove(lease)
        return lease

    def _is_frozen(self, batch: _Known) -> bool:
        return bool(self.store.redis.hexists(redis_keys.FROZEN, batch.id))

    def _score(self, lease: Lease) -> tuple[list[Outcome], list[Outcome], int] | None:
        """All outcomes of a unit, those that do not count yet, and how many come from an earlier attempt; None if the
        batch was deleted.
        """
        if (batch := self.batches.get(lease.batch)) is None:
            return None
        label, indices = batch.labels[lease.unit // batch.chunks], batch.indices(lease.unit)
        try:
            earlier = self._stored(lease, lease.earlier) if lease.earlier else None
            kept = self._stored(lease, lease.part.attempt) if lease.part is not None else []
        except FileNotFoundError:
            assert lease.batch not in self.batches or not self.is_held(lease)
            return None
        assert len(kept) == (lease.part.outcomes if lease.part else 0)
        if earlier is None:
            new = kept + [self._outcome(index, label) for index in indices[len(kept) :]]
            return new, new, len(kept)
        missing = zip(indices, earlier, strict=True)
        new = [self._outcome(index, label) if is_retryable(one) else one for index, one in missing]
        new = kept + new[len(kept) :]
        return new, [one for one, before in zip(new, earlier, strict=True) if is_retryable(before)], len(kept)

    def _stored(self, lease: Lease, attempt: int) -> list[Outcome]:
        with self.store.spool.open_outcomes(lease.batch, lease.unit, attempt) as file:
            return read_outcomes(file.read())

    def _outcome(self, index: int, label: str) -> Outcome:
        kind, number = self.random.random(), next(self.numbers)
        if kind < 0.6:
            return Outcome(index, label, float(number), 0.5)
        if kind < 0.7:
            return Outcome(index, label, None, 0.5, not_applicable=f"no {number}")
        is_passing = kind < 0.9
        return Outcome(
            index, label, None, 0.5, error=OutcomeError("model" if is_passing else "exception", f"{number}", is_passing)
        )

    def _write(self, lease: Lease, new: list[Outcome]) -> bool:
        data = _encoder.encode_lines(new)
        try:
            self.store.spool.write_outcomes(lease.batch, {(lease.unit, lease.attempt): data})
        except AttemptWritten:
            raise
        except OSError:
            assert lease.batch not in self.batches
            return False
        return True

    # What must hold.

    def check(self) -> None:
        self.leases = [lease for lease in self.leases if lease.batch in self.batches]
        self.completed = [one for one in self.completed if one[0][0].batch in self.batches]
        for batch in self.batches.values():
            self._check(batch, self.store.batches.get(batch.project, batch.id))
            assert self._lines(batch) == batch.lines()
        for project in PROJECTS:
            mine = [one for one in self.batches.values() if one.project == project]
            are_open = [one for one in mine if one.state == "open"]
            usage = self.store.backlog.usage(project)
            waiting = sum(one.total - len(one.counting()) for one in are_open)
            assert usage.waiting == Waiting(waiting, len(are_open))
            assert (usage.batches, usage.spool_bytes) == (len(mine), sum(one.stored() for one in mine))

    def _check(self, batch: _Known, shown: Batch) -> None:
        counting = batch.counting()
        assert {"queued": "open", "running": "open"}.get(shown.state, shown.state) == batch.state
        assert (shown.total, shown.done, shown.kept) == (batch.total, len(counting), batch.kept)
        assert shown.errors == Counter(one.error.kind for one in counting if one.error is not None)
        assert shown.not_applicable == sum(one.not_applicable is not None for one in counting)
        scores = [[one.score for one in counting if one.grader == label] for label in batch.labels]
        scores += [[one.score for one in batch.recorded.values()]] if batch.recorded else []
        for summary, some in zip([*shown.summary, *(shown.recorded or [])], scores, strict=True):
            numbers = [one for one in some if one is not None]
            assert (summary.count, summary.scored) == (len(some), len(numbers))
            assert summary.mean == (pytest.approx(sum(numbers) / len(numbers)) if numbers else None)

    def _lines(self, batch: _Known) -> list[bytes]:
        return b"".join(outcomes.read(self.store.batches, batch.id)).splitlines()

    def end(self) -> None:
        """Whatever happened: all that waits can be scored, and after the deletion of all batches nothing is left."""
        every: Any = self.store.redis.zrange(redis_keys.LEASES, 0, -1)
        for lease in every:
            self.store.redis.zadd(redis_keys.LEASES, {lease: 1})
        self.store.leases.beat([])
        while (lease := self.store.leases.claim()) is not None:
            self.leases = [lease]
            self.finish()
            self.check()
        assert {one.state for one in self.batches.values()} <= {"finished", "cancelled"}
        for batch in self.batches.values():
            self.store.batches.delete(batch.project, batch.id)
        self.leases = []
        self.tidy()
        assert not self.store.spool.batches()
        left = [redis_keys.TURNS, redis_keys.WAITING, redis_keys.ACTIVE, redis_keys.STORED, redis_keys.OPEN]
        left += [redis_keys.FROZEN, redis_keys.UNFROZEN, redis_keys.HOLDS, redis_keys.SOURCES, redis_keys.GARBAGE]
        assert not self.store.redis.exists(*left, redis_keys.LEASES)
        assert not self.store.redis.keys(redis_keys.batch("*"))


_CHANCES: dict[str, float] = {"accept": 0.7, "claim": 6, "finish": 6, "release": 1.5, "lose": 1, "retry": 4, "read": 3}
_CHANCES |= {"finish_again": 1, "keep_earlier": 1, "cancel": 1, "delete": 0.4, "freeze": 3, "tidy": 1}
_CHANCES |= {"record": 0.5, "keep": 0.3}


@pytest.mark.parametrize("seed", range(8, 12))
def test_whatever_happens_to_batches_the_store_says_what_is_so(redis_url: str, tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    between = _Between(lambda: chosen.random() < 0.3)
    with _Redis.from_url(redis_url) as redis:
        redis.flushdb()
        check_format(redis)
        spool = _Spool(f"file://{tmp_path}/spool")
        store = Store(redis, spool, secret_key=tmp_path / "key")
        for project in PROJECTS:
            store.projects.ensure(project)
        life = _Life(store, between, chosen)
        redis.reading, redis.between, spool.between = script(redis, "read_snapshot").sha, between, between

        def operate() -> None:
            (name,) = chosen.choices([*_CHANCES], [*_CHANCES.values()])
            life.log.append(name)
            getattr(life, name)()

        try:
            for _ in range(STEPS):
                with between.steps(operate):
                    operate()
                life.check()
            life.end()
        except BaseException as error:
            error.add_note(f"after {' '.join(life.log)}")
            raise
