"""One unit of work: the lines of one chunk, scored by one grader."""

from time import monotonic

import msgspec
from redis.exceptions import RedisError

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError
from storage.batches import Scorer
from storage.chunks import Chunk
from storage.connection import is_away
from storage.leases import Lease
from worker import tracing
from worker.bench import Bench, Loaded
from worker.runtime import Runtime


class Scored(msgspec.Struct, frozen=True):
    """The outcomes of one unit, which nobody else knows yet."""

    lease: Lease
    grader_number: int
    outcomes: list[Outcome]
    seconds: float
    """What it took."""


def score(runtime: Runtime, bench: Bench, lease: Lease) -> Scored | None:
    """Scores a unit; None where it is not to be: its batch is over, the lease was lost, or the worker is stopping.

    Raises:
        InfrastructureError: no sandbox could be had.
        PayloadLost: the spool no longer has the threads.
        OSError: the spool could not be read.
        RedisError: Redis could not be asked.
    """
    began = monotonic()
    plan = bench.plan(lease.batch)
    if plan is None:
        return None
    number, chunk = plan.unit(lease.unit)
    scorer = plan.scorers[number]
    values: tracing.Values = {
        "gradebox.batch": lease.batch,
        "gradebox.chunk": lease.unit,
        "gradebox.grader": scorer.label,
    }
    with tracing.span("score chunk", "consumer", plan.trace, values):
        outcomes = _outcomes(runtime, bench, lease, scorer, chunk)
    return None if outcomes is None else Scored(lease, number, outcomes, monotonic() - began)


def _outcomes(runtime: Runtime, bench: Bench, lease: Lease, scorer: Scorer, chunk: Chunk) -> list[Outcome] | None:
    store = runtime.store
    if lease.attempt > store.leases.attempts:
        return _given_up(scorer, chunk, store.leases.attempts)
    loaded = bench.load(lease, scorer)
    if loaded is None:
        return None
    payload = store.spool.read_payload(lease.batch, chunk.offset, chunk.length)
    outcomes = _grade(runtime, lease, loaded, payload, chunk, scorer.label)
    if outcomes is not None and len(outcomes) != chunk.lines:
        raise InfrastructureError(f"{len(outcomes)} outcomes came back for {chunk.lines} threads")
    return outcomes


def _grade(
    runtime: Runtime, lease: Lease, loaded: Loaded, payload: bytes, chunk: Chunk, label: str
) -> list[Outcome] | None:
    """Slice by slice; None where it was stopped between two of them."""
    outcomes: list[Outcome] = []
    start = 0
    while start < len(payload):
        began, before = monotonic(), len(outcomes)
        lines = min(loaded.pace.lines, chunk.lines - before)
        end = _end_of(payload, start, lines) if lines < chunk.lines - before else len(payload)
        outcomes += loaded.grading.score(payload[start:end], chunk.first_index + before, label, lines)
        loaded.pace.took(lines, monotonic() - began)
        start = end
        if start < len(payload) and not _goes_on(runtime, lease, len(outcomes)):
            return None
    return outcomes


def _end_of(payload: bytes, start: int, lines: int) -> int:
    """Where so many lines end."""
    end = start
    for _ in range(lines):
        end = payload.find(b"\n", end) + 1
        if end == 0:
            return len(payload)
    return end


def _goes_on(runtime: Runtime, lease: Lease, outcomes: int) -> bool:
    if runtime.stopping.is_set():
        return False
    try:
        return runtime.store.leases.advance(lease, outcomes)
    except RedisError as error:
        if is_away(error):
            return True  # it may be back when the unit is done
        raise


def _given_up(scorer: Scorer, chunk: Chunk, tries: int) -> list[Outcome]:
    message = f"the service tried {tries} times to score this thread and never came to an end: try it again later"
    error = OutcomeError("infrastructure", message, retryable=True)
    indices = range(chunk.first_index, chunk.first_index + chunk.lines)
    return [Outcome(index, scorer.label, None, 0.0, error=error) for index in indices]
