"""One unit of work: the lines of one chunk, scored by one grader."""

import msgspec

from gradebox.outcome import Outcome, OutcomeError
from sandbox.errors import InfrastructureError
from storage.batches import Scorer
from storage.chunks import Chunk
from storage.leases import ATTEMPTS, Lease
from storage.store import Store
from storage.tally import Tally, tally
from worker.bench import Bench

_encoder = msgspec.json.Encoder()


class Scored(msgspec.Struct, frozen=True):
    """The outcomes of one unit, in the spool but not counted yet."""

    grader_number: int
    counted: Tally


def score(store: Store, bench: Bench, lease: Lease) -> Scored | None:
    """Scores a unit and writes its outcomes; None where its batch is over.

    Raises:
        InfrastructureError: no sandbox could be had.
        PayloadLost: the spool no longer has the threads.
        OSError: the spool could not be read or written.
        RedisError: Redis could not be asked.
    """
    plan = bench.plan(lease.batch)
    if plan is None:
        return None
    number, chunk = plan.unit(lease.unit)
    scorer = plan.scorers[number]
    if lease.attempt > ATTEMPTS:
        outcomes = _given_up(scorer, chunk)
    else:
        grading = bench.grading(scorer)
        if grading is None:
            return None
        payload = store.spool.read_payload(lease.batch, chunk.offset, chunk.length)
        outcomes = grading.score(payload, chunk.first_index, scorer.label)
    if len(outcomes) != chunk.lines:
        raise InfrastructureError(f"{len(outcomes)} outcomes came back for {chunk.lines} threads")
    store.spool.write_outcomes(lease.batch, lease.unit, lease.attempt, _encoder.encode_lines(outcomes))
    return Scored(number, tally(outcomes))


def settle(store: Store, lease: Lease, scored: Scored) -> None:
    """Makes the outcomes count, once however often it is asked; of all attempts' files the one that counts stays."""
    if not store.leases.complete(lease, scored.grader_number, scored.counted):
        store.spool.remove_outcomes(lease.batch, lease.unit, lease.attempt)
        return
    for attempt in range(1, lease.attempt):
        store.spool.remove_outcomes(lease.batch, lease.unit, attempt)


def _given_up(scorer: Scorer, chunk: Chunk) -> list[Outcome]:
    message = f"the service tried {ATTEMPTS} times to score this thread and never came to an end: try it again later"
    error = OutcomeError("infrastructure", message, retryable=True)
    indices = range(chunk.first_index, chunk.first_index + chunk.lines)
    return [Outcome(index, scorer.label, None, 0.0, error=error) for index in indices]
