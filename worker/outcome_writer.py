"""Writes the outcomes of units: first to the spool, then to Redis, which makes them count."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Self

import structlog
from redis.exceptions import RedisError

from storage.errors import AttemptWritten
from storage.queue.leases import Completed
from storage.spool.file_store import MIB
from storage.spool.spool import is_full
from worker.context import WorkerContext
from worker.log_ended import log_chunk, log_finished
from worker.redis_retry import retry_redis
from worker.unit import Scored
from worker.unit_queue import UnitQueue

_MOST_BYTES = 64 * MIB  # of outcomes that wait in memory; a single unit may exceed it
_GATHER_S = 0.06  # a wait for the disk costs CPU too, so units that take a few milliseconds are written together
_PAUSE_S = 2.0
_LAST_ATTEMPTS = 10

_log = structlog.get_logger(__name__)


class OutcomeWriter:
    """Writes outcomes in a thread while the next unit is graded. Writes units that arrive during a write together."""

    def __init__(self, context: WorkerContext, queue: UnitQueue) -> None:
        self._context = context
        self._queue = queue
        self._changed = threading.Condition()
        self._waiting: deque[Scored] = deque()
        self._bytes = 0  # of units that wait or are being written
        self._units = 0
        self._flushing = False
        self._closed = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="outcome-writer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def add(self, scored: Scored) -> None:
        """Queues a unit for writing; blocks while too many bytes are queued. Raises RuntimeError if the writer thread
        has ended: chunks that do not count are given back when their leases expire.
        """
        with self._changed:
            self._wait_for(lambda: not self._units or self._bytes + len(scored.lines) <= _MOST_BYTES)
            self._waiting.append(scored)
            self._bytes += len(scored.lines)
            self._units += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Returns once everything that was added counts. Raises as `add` does."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            self._wait_for(lambda: not self._units)
            self._flushing = False

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._ended or condition())
        if self._ended:
            raise RuntimeError("the thread that writes outcomes has ended: see the log")

    def _run(self) -> None:
        try:
            self._write_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _write_all(self) -> None:
        while taken := self._take():
            for batch, units in groupby(taken, key=lambda one: one.lease.batch):
                self._write_or_give_back(batch, list(units))
            with self._changed:
                self._units -= len(taken)
                self._bytes -= sum(len(one.lines) for one in taken)
                self._changed.notify_all()

    def _take(self) -> list[Scored]:
        """The units to write next: waits for one, and a moment for more. Empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._changed.wait_for(lambda: self._flushing or self._closed, _GATHER_S)
            taken = [*self._waiting]
            self._waiting.clear()
            return taken

    def _write_or_give_back(self, batch: str, units: Sequence[Scored]) -> None:
        """Writes the units of one batch, or gives them back after any error, so that other batches are not affected."""
        try:
            self._write(batch, units)
        except Exception:  # noqa: BLE001  # an error in one batch must not stop the others
            _log.exception("outcomes could not be recorded, giving back their chunks", batch=batch)
            self._give_back(units, tried=not self._context.stopping.is_set())

    def _give_back(self, units: Sequence[Scored], *, tried: bool) -> None:
        for one in units:
            try:
                self._queue.give_back(one.lease, tried=tried)
            except RedisError as error:
                self._queue.drop(one.lease)
                _log.warning(
                    "a chunk could not be given back, it returns when its lease expires",
                    lease=str(one.lease),
                    error=str(error),
                )

    def _write(self, batch: str, units: Sequence[Scored]) -> None:
        files = {(one.lease.unit, one.lease.attempt): one.lines for one in units}
        stopping, spool = self._context.stopping, self._context.store.spool
        unexplained = 0
        while (error := self._failure(batch, files)) is not None:
            if isinstance(error, AttemptWritten):
                self._context.spool_error = None
                self._write_others(batch, units, error)
                return
            self._context.spool_error = error
            _log.warning("outcomes cannot be written", batch=batch, again_in_s=_PAUSE_S, error=str(error))
            # A folder may refuse one file for good; an object store refuses some for a while, and takes the probe's.
            if spool.files.is_folder and not is_full(error) and spool.trouble() is None:
                unexplained += 1  # once, because the trouble may have ended before it was looked for
            if stopping.wait(_PAUSE_S) or unexplained > 1:
                self._context.spool_error = None
                self._give_back(units, tried=not stopping.is_set())
                return
        self._context.spool_error = None
        for one in units:
            if not one.whole:
                self._keep(one)
        self._count([one for one in units if one.whole])

    def _write_others(self, batch: str, units: Sequence[Scored], error: AttemptWritten) -> None:
        """Gives back the units whose attempts were written before, and writes the others. The next attempt of a unit
        has another number, and its file a name of its own.
        """
        if len(units) > 1:
            for one in units:
                self._write(batch, [one])
            return
        _log.warning(
            "a chunk is scored again: its attempt was written before Redis came back with older data",
            error=str(error),
            **_place(units[0]),
        )
        self._give_back(units, tried=False)

    def _failure(self, batch: str, files: Mapping[tuple[int, int], bytes]) -> OSError | None:
        """Writes the outcomes. Returns the error, if any: the caller waits for a spool that is full or not writable, to
        avoid scoring again.
        """
        try:
            self._context.store.spool.write_outcomes(batch, files)
        except OSError as error:
            return error
        return None

    def _keep(self, one: Scored) -> None:
        """Gives back a unit that was left in the middle. The next attempt continues from its file."""
        lease = one.lease
        kept = self._queue.give_back(lease, tried=False, outcomes=one.outcomes)
        if not kept:
            self._remove(one, lease.attempt)
        elif lease.part is not None:
            self._remove(one, lease.part.attempt)
        _log.info("chunk given back with its finished outcomes", completions=one.outcomes, kept=kept, **_place(one))

    def _count(self, units: Sequence[Scored]) -> None:
        """Makes the outcomes count. Idempotent. Deletes the outcome files of attempts that did not win."""
        if not units:
            return
        store = self._context.store
        told = [(one.lease, one.grader_number, one.counted, len(one.lines)) for one in units]
        completed = retry_redis(self._context, lambda: store.leases.complete_all(told))
        for one, counts in zip(units, completed, strict=True):
            self._queue.drop(one.lease)
            log_chunk(self._context.metrics, one, counts)
        if Completed.FINISHED in completed:
            self.finish(units[0].lease.batch)
        for one, counts in zip(units, completed, strict=True):
            self._remove_others(one, counts)

    def finish(self, batch: str) -> None:
        """Logs and freezes a finished batch. Only logs errors, because the outcomes that wait are more important."""
        try:
            log_finished(self._context.store, self._context.metrics, batch)
        except Exception:  # noqa: BLE001  # no error here may stop the writer
            _log.exception("the results of a finished batch could not be logged", batch=batch)
        try:
            self._context.store.freezer.freeze(batch)
        except Exception:  # noqa: BLE001  # the janitor tries again
            _log.exception("a finished batch could not be frozen, the janitor tries again", batch=batch)

    def _remove_others(self, one: Scored, completed: Completed) -> None:
        """Deletes the files of attempts that do not count. The janitor removes the rest after the batch has ended."""
        if completed == Completed.NOT:
            self._remove(one, one.lease.attempt)
        if not completed:
            return
        if one.lease.part is not None:
            self._remove(one, one.lease.part.attempt)
        for attempt in range(max(one.lease.earlier + 1, one.lease.attempt - _LAST_ATTEMPTS), one.lease.attempt):
            self._remove(one, attempt)

    def _remove(self, one: Scored, attempt: int) -> None:
        try:
            self._context.store.spool.remove_outcomes(one.lease.batch, one.lease.unit, attempt)
        except OSError as error:
            _log.warning("a file that does not count is left for the janitor", error=str(error), **_place(one))


def _place(one: Scored) -> dict[str, object]:
    return {"batch": one.lease.batch, "chunk": one.lease.unit, "attempt": one.lease.attempt, "grader": one.label}
