"""The statistics of batches that are not frozen: a tally for each unit, of which the first hold several together."""

from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis.client import Pipeline

from storage import names
from storage.connection import script
from storage.tally import Tally, merged, pack, unpack

MOST = 8  # of one grader of a batch; then they are merged into one


class Tallies:
    """Of all batches. The script `complete` adds to them."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._merge = script(redis, "merge")

    def ask(self, pipe: Pipeline, batch_id: str, grader_number: int) -> None:
        """Asks in `pipe` for what `read` takes."""
        pipe.lrange(names.tallies(batch_id, grader_number), 0, -1)

    def of(self, batch_id: str, graders: int) -> list[Tally]:
        """The tally of each grader of a batch, as far as it is done."""
        with self._redis.pipeline() as pipe:
            for number in range(graders):
                self.ask(pipe, batch_id, number)
            return [read(kept) for kept in pipe.execute()]

    def merge(self, batch_id: str, grader_number: int) -> None:
        """Puts one tally in the place of those that there are. Nothing is done where another was faster."""
        with self._redis.pipeline() as pipe:
            self.ask(pipe, batch_id, grader_number)
            pipe.hget(names.batch(batch_id), f"merges:{grader_number}")
            found: list[Any] = pipe.execute()
        kept, merges = found
        if len(kept) > 1:
            self._merge(args=[batch_id, grader_number, merges or b"0", len(kept), pack(read(kept))])


def read(kept: Sequence[bytes]) -> Tally:
    """One grader's tally, from those that are kept of it."""
    return merged(map(unpack, kept))
