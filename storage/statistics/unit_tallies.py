"""The statistics of batches that are not frozen: one tally per unit, except that the first ones may be merged."""

from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.client import Pipeline

from storage import redis_keys
from storage.connection import script
from storage.statistics.outcome_tally import Tally, merged, pack, unpack

MOST = 8  # tallies of one grader of a batch; then they are merged into one


class Tallies:
    """The tallies of all batches. The script `complete_unit` adds tallies."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._merge = script(redis, "merge_tallies")

    def ask(self, pipe: Pipeline, batch_id: str, grader_number: int) -> None:
        """Adds the command to `pipe` whose reply `read` takes."""
        pipe.lrange(redis_keys.tallies(batch_id, grader_number), 0, -1)

    def of(self, batch_id: str, graders: int) -> list[Tally]:
        """The tally of each grader of a batch, over the units completed so far."""
        with self._redis.pipeline(transaction=False) as pipe:  # a full Redis refuses transactions
            for number in range(graders):
                self.ask(pipe, batch_id, number)
            return [read(kept) for kept in pipe.execute()]

    def merge(self, batch_id: str, grader_number: int) -> None:
        """Replaces the tallies of a grader by one merged tally. Does nothing if another process did so first."""
        with self._redis.pipeline() as pipe:
            self.ask(pipe, batch_id, grader_number)
            pipe.hget(redis_keys.batch(batch_id), f"merges:{grader_number}")
            found: list[Any] = pipe.execute()
        kept, merges = found
        if len(kept) > 1:
            self._merge(args=[batch_id, grader_number, merges or b"0", len(kept), pack(read(kept))])


def read(kept: Sequence[bytes]) -> Tally:
    """Merges the stored tallies of one grader."""
    return merged(map(unpack, kept))
