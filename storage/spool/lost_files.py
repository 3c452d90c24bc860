"""Tells a file of an ended batch that is lost from one that this process does not see at the moment."""

from datetime import datetime

from gradebox.schemas import Batch
from storage.spool.spool import Spool

SETTLED_S = 120.0  # until then, a network file system may hide from one machine what another one wrote


def is_lost(batch: Batch, spool: Spool, now: datetime) -> bool:
    """Whether a file of this batch that is missing or cut off stays so: the batch has not run for a while, and the
    spool is there.
    """
    if batch.finished_at is None or (now - batch.finished_at).total_seconds() < SETTLED_S:
        return False
    return spool.is_there(batch.id)
