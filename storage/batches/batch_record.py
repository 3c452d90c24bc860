"""A batch that is not frozen: its record in Redis, and its public form."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from redis.client import Pipeline

from gradebox.outcome import Spent
from gradebox.schemas import AwaitedServer, Batch, BatchBudget, BatchGrader, FeedbackOf, Summary
from storage import batch_plan, redis_keys
from storage.batch_plan import NO_TERMS, AskTerms, PlannedGrader, UploadedBatch
from storage.batches.frozen_batch import Frozen
from storage.connection import text
from storage.models.spending import of_grader
from storage.spool.chunks import Chunk
from storage.statistics import unit_tallies
from storage.statistics.outcome_tally import error_counts
from storage.statistics.reward_warnings import Past, read_past
from storage.statistics.summary import NOT_MADE, spent, summary_of, weighted_mean

_START_S = 15.0

_log = logging.getLogger(__name__)


def new_record(
    new: UploadedBatch, scorers: list[PlannedGrader], weighted: bool, created_at: datetime
) -> dict[str, str]:
    """The record of a new batch. A value of more than 64 bytes would make Redis store it in four times the memory."""
    threads = new.chunks[-1].first_index + new.chunks[-1].lines
    graders = [msgspec.structs.replace(scorer, source="") for scorer in scorers]
    asks = batch_plan.asks_of(new.wanted)
    return {
        "project": new.project,
        "state": "queued",
        "graders": msgspec.json.encode(graders).decode(),
        "grader_count": str(len(scorers)),
        "sources": " ".join(scorer.source for scorer in scorers),
        "threads": str(threads),
        "bytes": str(size_of(new.chunks)),
        "total": str(threads * len(scorers)),
        "done": "0",
        "scored": "0",
        "units": str(len(new.chunks) * len(scorers)),
        "next": "0",
        "created_at": created_at.isoformat(),
        **({"created_by": new.by} if new.by else {}),
        **({"trace": new.trace} if new.trace else {}),
        **({"lane": "asking", "asks": msgspec.json.encode(asks).decode()} if asks else {}),
        **({"terms": msgspec.json.encode(new.terms).decode()} if new.terms != NO_TERMS else {}),
        **({"weighted": "1"} if weighted else {}),
        **({"feedback_of": new.feedback_of.model_dump_json()} if new.feedback_of is not None else {}),
    }


def ask(pipe: Pipeline, batch_id: str) -> None:
    """Queues in `pipe` the commands whose replies `standing` takes."""
    pipe.hgetall(redis_keys.batch(batch_id))
    pipe.hvals(redis_keys.underway(batch_id))
    pipe.hget(redis_keys.FROZEN, batch_id)


def standing(
    batch_id: str, record: Mapping[bytes | str, bytes | str], underway: Sequence[bytes], frozen: bytes | None
) -> Batch | None:
    """A batch without its summaries, from the replies to the commands of `ask`; None if it was deleted."""
    if frozen is not None:
        return Frozen(frozen).batch(batch_id, summary=False)
    if not record:
        return None
    return shown(batch_id, texts(record), sum(map(int, underway)), [])


def terms_of(packed: bytes | str | None) -> AskTerms:
    """The ask terms of a batch, from that field of its record."""
    return msgspec.json.decode(packed, type=AskTerms) if packed else NO_TERMS


def budget_of(terms: AskTerms) -> BatchBudget | None:
    """The public form of a budget."""
    one = terms.budget
    return None if one is None else BatchBudget(usd=one.usd, tokens=one.tokens)


def asks_of(fields: Mapping[str, str]) -> list[str]:
    """The ask targets that the graders of a batch may wait for. Empty once the batch has ended."""
    if "asks" not in fields or fields.get("finished_at"):
        return []
    return msgspec.json.decode(fields["asks"], type=list[str])


def has_waited(fields: Mapping[str, str], now: float) -> bool:
    """Whether the batch is open, and old enough at this time for a worker to have started since it was created."""
    made = datetime.fromisoformat(fields["created_at"])
    return not fields.get("finished_at") and now - made.timestamp() > _START_S


def shown(
    batch_id: str,
    fields: dict[str, str],
    underway: int,
    made: Sequence[Summary | None],
    waits_for: Sequence[AwaitedServer] = (),
    trouble: str | None = None,
) -> Batch:
    """The public form of a batch, from its record. `made` are its summaries, None for those that could not be made."""
    scorers = msgspec.json.decode(fields["graders"], type=list[PlannedGrader])
    of = fields.get("feedback_of")
    summaries = [summary if of is None else _of_feedback(summary) for summary in made if summary is not None]
    terms = terms_of(fields.get("terms"))
    errors, done, scored = error_counts(fields), int(fields["done"]), int(fields["scored"])
    return Batch.model_validate(
        {
            **{
                name: fields.get(name)
                for name in ("project", "state", "created_by", "created_at", "started_at", "finished_at")
            },
            "threads": int(fields["threads"]),
            "total": int(fields["total"]),
            "done": done,
            "scored": scored,
            "id": batch_id,
            "kept": "kept" in fields,
            "weighted": "weighted" in fields,
            "budget": budget_of(terms),
            "replies": terms.replies,
            "feedback_of": None if of is None else FeedbackOf.model_validate_json(of),
            "waits_for": waits_for,
            "trouble": trouble,
            "underway": underway,
            "graders": [BatchGrader(key=one.key, version=one.version, weight=one.weight) for one in scorers],
            "errors": errors,
            "not_applicable": done - scored - sum(errors.values()),
            "weighted_mean": weighted_mean(summaries) if len(summaries) == len(scorers) else None,
            "summary": summaries,
            "summary_error": NOT_MADE if len(summaries) < len(made) else None,
        }
    )


def _of_feedback(summary: Summary) -> Summary:
    """Keeps only the warning about errors: the scores are those of the outcomes that the feedback is on, and most are
    low.
    """
    items = [pair for pair in zip(summary.warning_kinds, summary.warnings, strict=True) if pair[0] == "errors"]
    return summary.model_copy(
        update={"warning_kinds": [kind for kind, _ in items], "warnings": [content for _, content in items]}
    )


def kept_summary(
    scorer: PlannedGrader, kept: Sequence[bytes], past: Sequence[Past], cost: Spent | None
) -> Summary | None:
    """The summary from the stored tallies of one grader, and from what its asks cost: more than is in its outcomes if a
    worker was stopped. None if it cannot be made, which is logged.
    """
    try:
        counted = unit_tallies.read(kept)
    except msgspec.DecodeError:
        _log.exception("the statistics of %s cannot be read", scorer.label)
        return None
    counted.spent = cost
    return summary_of(scorer.label, scorer.weight, counted, past, scorer.python)


def with_spent(batch: Batch, counts: Mapping[bytes, bytes]) -> Batch:
    """A frozen batch with what its asks cost, from their counts: some may have ended after it was frozen."""
    if not counts:
        return batch
    summaries = [
        one if (found := of_grader(counts, number)) is None else one.model_copy(update={"spent": spent(found)})
        for number, one in enumerate(batch.summary)
    ]
    return batch.model_copy(update={"summary": summaries})


def past_of(fields: Mapping[str, str], number: int, rewards: Sequence[bytes]) -> list[Past]:
    """The earlier results that the scores of a grader are compared with. Empty until its batch is finished."""
    if fields["state"] != "finished":
        return []
    kept = fields.get(f"past:{number}")  # set by a retry, and in batches that an earlier gradebox finished
    return read_past(" ".join(map(text, rewards)) if kept is None else kept)


def scorers_of(graders: bytes | str, sources: str) -> list[PlannedGrader]:
    """The graders of a record, from two of its fields."""
    found = msgspec.json.decode(graders, type=list[PlannedGrader])
    return [msgspec.structs.replace(one, source=of) for one, of in zip(found, sources.split(), strict=True)]


def attempts_of(packed: bytes | None) -> list[int]:
    """For each unit, the attempt whose outcomes count."""
    packed = packed or b""
    return [int.from_bytes(packed[i : i + 2]) for i in range(0, len(packed), 2)]


def size_of(chunks: list[Chunk]) -> int:
    """The size of a batch's threads in bytes."""
    return chunks[-1].offset + chunks[-1].length


def texts(fields: Mapping[bytes | str, bytes | str]) -> dict[str, str]:
    """A decoded record, without its chunk table, which is a field of it if it is short."""
    return {text(name): text(value) for name, value in fields.items() if text(name) != "chunks"}
