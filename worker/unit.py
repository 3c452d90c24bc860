"""One unit of work: the lines of one chunk, scored by one grader."""

from collections.abc import Callable, Iterator
from time import monotonic

import msgspec
from redis.exceptions import RedisError

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError
from storage.chunks import Chunk
from storage.connection import is_away
from storage.leases import Lease
from storage.plans import Scorer
from storage.tally import Tally, tally
from worker import tracing
from worker.bench import Bench, Loaded
from worker.pace import SLICE_S
from worker.runtime import Runtime

_LOOK_S = SLICE_S / 2  # between two questions of whether to go on

_encoder = msgspec.json.Encoder()


class Scored(msgspec.Struct, frozen=True):
    """The outcomes of one unit, which nobody else knows yet, as they will be written: a third of what they take as
    objects.
    """

    lease: Lease
    grader_number: int
    label: str
    """What the outcomes call the grader."""
    lines: bytes
    counted: Tally
    seconds: float
    """What it took."""


def score(runtime: Runtime, bench: Bench, lease: Lease, when_slow: Callable[[], None]) -> Scored | None:
    """Scores a unit; None where it is not to be: its batch is over, the lease was lost, or the worker is stopping.
    `when_slow` is called now and then where it takes long.

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
        outcomes = _outcomes(runtime, bench, lease, scorer, chunk, when_slow)
    if outcomes is None:
        return None
    lines, counted = _encoder.encode_lines(outcomes), tally(outcomes)
    return Scored(lease, number, scorer.label, lines, counted, monotonic() - began)


def _outcomes(
    runtime: Runtime, bench: Bench, lease: Lease, scorer: Scorer, chunk: Chunk, when_slow: Callable[[], None]
) -> list[Outcome] | None:
    store = runtime.store
    if lease.attempt > store.leases.attempts:
        return _given_up(scorer, chunk, store.leases.attempts)
    loaded = bench.load(lease, scorer)
    if loaded is None:
        return None
    payload = store.spool.read_payload(lease.batch, chunk.offset, chunk.length)
    outcomes: list[Outcome] = []
    looked = monotonic()
    for scored in _slices(loaded, payload, chunk, scorer.label):
        outcomes += scored
        if len(outcomes) >= chunk.lines:
            break
        if runtime.stopping.is_set():
            return None
        if monotonic() - looked > _LOOK_S:
            when_slow()
            if not _goes_on(runtime, lease, len(outcomes)):
                return None
            looked = monotonic()
    if len(outcomes) != chunk.lines:
        raise InfrastructureError(f"{len(outcomes)} outcomes came back for {chunk.lines} threads")
    return outcomes


def _slices(loaded: Loaded, payload: bytes, chunk: Chunk, label: str) -> Iterator[list[Outcome]]:
    start = done = 0
    while start < len(payload):
        began = monotonic()
        lines = min(loaded.pace.lines, chunk.lines - done)
        end = _end_of(payload, start, lines) if lines < chunk.lines - done else len(payload)
        outcomes = loaded.grading.score(payload[start:end], chunk.first_index + done, label, lines)
        loaded.pace.took(lines, monotonic() - began)
        yield outcomes
        start, done = end, done + lines


def _end_of(payload: bytes, start: int, lines: int) -> int:
    """Where so many lines end."""
    end = start
    for _ in range(lines):
        end = payload.find(b"\n", end) + 1
        if end == 0:
            return len(payload)
    return end


def _goes_on(runtime: Runtime, lease: Lease, outcomes: int) -> bool:
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
