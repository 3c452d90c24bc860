"""The sandbox layer, used as a worker uses it, but without HTTP, Redis or a spool."""

from pathlib import Path
from time import perf_counter
from typing import Literal

from benchmarks import threads
from gradebox.outcome import Outcome
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from storage.spool.chunks import Chunk, Cutter

_BLOCK = 1 << 18


def _cut(path: Path) -> list[Chunk]:
    """The chunks of an upload of this file."""
    cutter = Cutter()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            cutter.feed(block)
    return cutter.finish()


class Layer:
    """One grader in a pool, which keeps it loaded between runs, and a file of threads."""

    def __init__(
        self, pool: Pool, grader: str, path: Path, isolation: Literal["batch", "completion"] = "batch"
    ) -> None:
        """Runs once, so that the grader is loaded."""
        self._pool = pool
        self._source = GraderSource(threads.source(grader), isolation)
        self._path = path
        self._chunks = _cut(path)
        self.seconds()

    def score(self) -> list[Outcome]:
        """All outcomes. Reads the file, but does not cut it into chunks: the upload does that."""
        outcomes: list[Outcome] = []
        with self._path.open("rb") as file, self._pool.grading(self._source) as grading:
            for chunk in self._chunks:
                file.seek(chunk.offset)
                outcomes += grading.score(file.read(chunk.length), chunk.first_index, "regex@1", chunk.lines)
        return outcomes

    def seconds(self) -> float:
        """The seconds that `score` takes. Raises RuntimeError if a thread has no score."""
        started = perf_counter()
        outcomes = self.score()
        spent = perf_counter() - started
        lost = [outcome for outcome in outcomes if outcome.score is None]
        if lost or len(outcomes) != self._chunks[-1].first_index + self._chunks[-1].lines:
            raise RuntimeError(f"{len(lost)} of {len(outcomes)} threads have no score: {lost[:1]}")
        return spent
