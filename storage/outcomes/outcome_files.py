"""The files of a batch's outcomes, checked to be whole."""

import errno
import logging
from contextlib import ExitStack
from io import BytesIO
from typing import IO

from storage.batch_plan import Plan
from storage.batches.batches import Batches
from storage.errors import CutOff, NotFound, OutcomesLost
from storage.spool.blocks import BLOCK_BYTES

_AT_ONCE_BYTES = 1024 * 1024  # more than most chunks have

_log = logging.getLogger(__name__)


class OutcomeFiles:
    """The files of the outcomes of one batch, by unit and attempt."""

    def __init__(self, batches: Batches, batch_id: str, plan: Plan) -> None:
        self.spool = batches.spool
        self.batch_id = batch_id
        self.plan = plan
        self._batches = batches

    def open(self, unit: int, attempt: int) -> IO[bytes]:
        """Opens the outcomes of a unit, one per line. It has all of them.

        Raises:
            OutcomesLost: the spool no longer has the file, or only a part of it.
            NotFound: the batch was deleted.
            OSError: the file cannot be read now.
        """
        try:
            return self._opened(unit, attempt)
        except (FileNotFoundError, CutOff) as error:
            self._raise_if_lost(unit, attempt, error)
            raise

    def _opened(self, unit: int, attempt: int) -> IO[bytes]:
        _, chunk = self.plan.unit(unit)
        with ExitStack() as failing:
            file = failing.enter_context(self.spool.open_outcomes(self.batch_id, unit, attempt))
            beginning = file.read(_AT_ONCE_BYTES)
            rest = iter(lambda: file.read(BLOCK_BYTES), b"")
            found = beginning.count(b"\n") + sum(block.count(b"\n") for block in rest)
            if found != chunk.lines:
                what = f"unit {unit} of batch {self.batch_id} has {found} outcomes of {chunk.lines}"
                raise CutOff(errno.EIO, what)
            if len(beginning) < _AT_ONCE_BYTES:
                return BytesIO(beginning)  # an object store sends it only once
            file.seek(0)
            failing.pop_all()
        return file

    def _raise_if_lost(self, unit: int, attempt: int, error: OSError) -> None:
        batch = self._batches.find(self.batch_id)
        if batch is None:
            raise NotFound(f"batch {self.batch_id!r} was deleted") from error
        counting = self._batches.settled(self.batch_id)
        if counting is None or counting[unit : unit + 1] != [attempt] or not self._batches.is_lost(batch):
            return
        number, chunk = self.plan.unit(unit)
        _log.error("outcomes of batch %s are lost: unit %d, attempt %d: %s", batch.id, unit, attempt, error)
        last = chunk.first_index + chunk.lines - 1
        state = "cut off in" if isinstance(error, CutOff) else "gone from"
        raise OutcomesLost(
            f"the outcomes of threads {chunk.first_index} to {last} of batch {batch.id!r} by "
            f"{self.plan.scorers[number].label} are {state} the spool: score its threads again in a new batch "
            "(`threads_of`), or read the other outcomes with `after` and `limit`"
        ) from error
