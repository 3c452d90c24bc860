"""Has the program make indexes, and search for texts."""

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

import msgspec

from api.numbers import process
from api.numbers.jobs import IndexJob, SearchJob, TextFound
from api.numbers.process import IsGone
from gradebox.schemas import Batch
from storage.errors import Conflict
from storage.graded_chunks import GradedChunks
from storage.outcome_index import OutcomeIndex
from storage.store import Store

SEARCH_S = 5.0


class GraderTable:
    """The outcomes of one grader of a batch that is over.

    Raises:
        Conflict: outcomes are scored again.
    """

    def __init__(self, store: Store, batch: Batch, grader: str) -> None:
        self.batch = batch.id
        self.grader = grader
        standing, attempts = store.batches.standing(batch.id), store.batches.settled(batch.id)
        if standing is None or attempts is None or standing[1] != attempts:
            raise Conflict(f"outcomes of batch {batch.id} are scored again: its table is made once it is over")
        labels = [scorer.label for scorer in standing[0].scorers]
        self.graded = GradedChunks(batch.id, standing[0], attempts, labels.index(grader))
        self.index = OutcomeIndex(store.spool, batch.id, self.graded)
        self._spool = store.spool

    def make(self, is_gone: IsGone) -> None:
        """Makes the index, unless it is there. Raises as `process.run_into` does, and OSError."""
        if self.index.is_there:  # another request has made it meanwhile
            return
        job = IndexJob(self.grader, self._lines)
        with TemporaryFile() as made:
            process.run_into(made, job, [self.graded.outcomes(self._spool), self.graded.threads(self._spool)], is_gone)
            made.seek(0)
            self._spool.write_index(self.batch, self.index.name, made)
        self.index.remove_older()

    def search(self, is_gone: IsGone, text: str) -> TextFound:
        """The rows that hold a text, as far as five seconds suffice. Raises as `make` does."""
        job = SearchJob(text, self._lines, SEARCH_S)
        return msgspec.json.decode(process.run(job, self._by_chunk(), is_gone), type=TextFound)

    def _by_chunk(self) -> Iterator[Iterable[bytes]]:
        for one in self.graded.chunks:
            yield self.graded.outcomes_of(self._spool, one)
            yield self.graded.threads_of(self._spool, one)

    @property
    def _lines(self) -> list[int]:
        return [one.chunk.lines for one in self.graded.chunks]
