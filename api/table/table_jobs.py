"""Runs the program to create indexes, and to search for texts."""

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

import msgspec

from api.numbers import run_job
from api.numbers.jobs import IndexJob, SearchJob, TextFound
from api.numbers.run_job import IsGone
from gradebox.combination import COMBINED
from gradebox.schemas import Batch
from storage.outcomes.graded_chunks import GradedChunks
from storage.outcomes.outcome_files import OutcomeFiles
from storage.outcomes.outcome_index import OutcomeIndex
from storage.store import Store

SEARCH_S = 5.0


class GraderTable:
    """The outcomes of one grader of a batch, or its combined ones. If the batch is not over, they end at the first
    missing outcome.

    Attributes:
        is_over: whether the batch is over; only then it may have an index.

    Raises:
        NotFound: the batch was deleted meanwhile.
    """

    def __init__(self, store: Store, batch: Batch, grader: str) -> None:
        self.batch = batch.id
        self.grader = grader
        settled = store.batches.settled(batch.id)
        plan, attempts = store.batches.standing(batch.id)
        self.is_over = settled == attempts
        labels = [scorer.label for scorer in plan.scorers]
        number = None if grader == COMBINED else labels.index(grader)
        files = OutcomeFiles(store.batches, batch.id, plan)
        self.graded = GradedChunks(files, attempts, number, with_gaps=self.is_over)
        self.index = OutcomeIndex(self.graded)

    def make(self, is_gone: IsGone) -> None:
        """Creates the index if it does not exist. Raises as `run_job.run_into` does, and OSError."""
        if self.index.is_there:  # another request created it meanwhile
            return
        job = IndexJob(self.grader, self._lines)
        with TemporaryFile() as made:
            run_job.run_into(made, job, [self.graded.outcomes(), self.graded.threads()], is_gone)
            made.seek(0)
            self.graded.files.spool.write_index(self.batch, self.index.name, made)
        self.index.remove_older()

    def search(self, is_gone: IsGone, text: str) -> TextFound:
        """Finds the rows that contain a text, in at most `SEARCH_S`. Raises as `make` does."""
        job = SearchJob(text, self._lines, SEARCH_S)
        return msgspec.json.decode(run_job.run(job, self._by_chunk(), is_gone), type=TextFound)

    def _by_chunk(self) -> Iterator[Iterable[bytes]]:
        for one in self.graded.chunks:
            yield self.graded.outcomes_of(one)
            yield self.graded.threads_of(one)

    @property
    def _lines(self) -> list[int]:
        return [one.chunk.lines for one in self.graded.chunks]
