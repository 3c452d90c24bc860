"""Logs and counts chunks and batches when they end."""

from datetime import datetime

import structlog
from redis.exceptions import RedisError

from runtime.metrics import Metrics
from storage.queue.leases import Completed
from storage.store import Store
from worker.unit import Scored

_log = structlog.get_logger(__name__)


def log_chunk(metrics: Metrics, scored: Scored, completed: Completed) -> None:
    """Logs and counts a scored chunk."""
    metrics.chunk.observe(scored.seconds)
    if completed:
        counted = scored.counted
        metrics.completions.add(
            scored.project, scored.grader, counted.scored, counted.not_applicable, counted.errors, counted.run_ms
        )
    _log.info(
        "chunk scored",
        batch=scored.lease.batch,
        chunk=scored.lease.unit,
        attempt=scored.lease.attempt,
        grader=scored.label,
        completions=scored.counted.count,
        errors=dict(scored.counted.errors),
        not_applicable=scored.counted.not_applicable,
        counts=bool(completed),
        duration_ms=round(scored.seconds * 1000, 1),
    )


def log_finished(store: Store, metrics: Metrics, batch_id: str) -> None:
    """Logs and counts a finished batch, and the warnings about its scores."""
    metrics.ended.labels("finished").inc()
    try:
        batch, retried_at = store.batches.find(batch_id), store.batches.retried_at(batch_id)
    except RedisError as error:
        _log.warning("the results of a finished batch could not be read", batch=batch_id, error=str(error))
        return
    if batch is None or batch.finished_at is None:
        return
    started = retried_at or batch.started_at or batch.finished_at
    wait_s, run_s = _between(retried_at or batch.created_at, started), _between(started, batch.finished_at)
    if retried_at is None:
        metrics.batch_wait.observe(wait_s)
    metrics.batch_run.observe(run_s)
    _log.info(
        "batch finished",
        batch=batch_id,
        project=batch.project,
        completions=batch.total,
        errors=batch.errors,
        not_applicable=batch.not_applicable,
        means={summary.grader: summary.mean for summary in batch.summary},
        wait_s=round(wait_s, 3),
        run_s=round(run_s, 3),
    )
    for summary in batch.summary:
        for kind, warning in zip(summary.warning_kinds, summary.warnings, strict=True):
            metrics.warned.labels(kind).inc()
            _log.warning(
                "dead reward", batch=batch_id, project=batch.project, grader=summary.grader, kind=kind, warning=warning
            )


def _between(start: datetime, end: datetime) -> float:
    """The difference in seconds; at least 0, because the two times may come from different clocks."""
    return max((end - start).total_seconds(), 0.0)
