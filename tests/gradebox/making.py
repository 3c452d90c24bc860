"""Makes records that the service would send."""

from datetime import UTC, datetime

from gradebox.schemas import Batch, BatchGrader, BatchState

JSON_LINES = {"Content-Type": "application/x-ndjson"}


def batch(done: int = 0, state: BatchState = "running", total: int = 1_000, **errors: int) -> Batch:
    """A batch of one grader."""
    return Batch(
        id="b1",
        project="default",
        state=state,
        graders=[BatchGrader(key="exact-match", version=1)],
        threads=total,
        total=total,
        done=done,
        scored=done - sum(errors.values()),
        errors=errors,
        created_at=datetime.now(UTC),
    )
