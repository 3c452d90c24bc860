"""The sandbox layer, used as a worker uses it, but without HTTP, Redis or a spool."""

from pathlib import Path
from time import perf_counter
from typing import Literal

from benchmarks import threads
from gradebox.outcome import Outcome
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool
from storage.chunks import Chunk, Cutter

_BLOCK = 1 << 18


def cut(path: Path) -> list[Chunk]:
    """The chunks of an upload of this file."""
    cutter = Cutter()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            cutter.feed(block)
    return cutter.finish()


class Layer:
    """One grader in a pool, which keeps it loaded between runs."""

    def __init__(self, pool: Pool, grader: str, isolation: Literal["batch", "completion"] = "batch") -> None:
        self._pool = pool
        self._source = GraderSource(threads.source(grader), isolation)

    def score(self, path: Path, chunks: list[Chunk]) -> list[Outcome]:
        """All outcomes of a file. Reads the file, but does not cut it into chunks: the upload does that."""
        outcomes: list[Outcome] = []
        with path.open("rb") as file, self._pool.grading(self._source) as grading:
            for chunk in chunks:
                file.seek(chunk.offset)
                outcomes += grading.score(file.read(chunk.length), chunk.first_index, "regex@1", chunk.lines)
        return outcomes

    def seconds(self, path: Path, chunks: list[Chunk]) -> float:
        """The seconds that `score` takes. Raises RuntimeError if a thread has no score."""
        started = perf_counter()
        outcomes = self.score(path, chunks)
        spent = perf_counter() - started
        lost = [outcome for outcome in outcomes if outcome.score is None]
        if lost or len(outcomes) != chunks[-1].first_index + chunks[-1].lines:
            raise RuntimeError(f"{len(lost)} of {len(outcomes)} threads have no score: {lost[:1]}")
        return spent
