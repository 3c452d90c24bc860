"""The sizes of runs: two minutes, full, or full with a million completions."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scale:
    """Counts of threads, rounds of interleaved runs, and requests.

    Attributes:
        batches: sizes of the batches that are timed against bare.
        sizes: sizes of the batches whose memory and CPU time are measured.
        table_rows: outcomes of the batch whose table is read.
        cold: how often a grader with packages is loaded; 0 skips this part.
        each, few: threads that are graded one by one, by ways that take less than a millisecond each, and slower ones.
    """

    threads: int = 20_000
    slow_threads: int = 2_000
    rounds: int = 11
    batches: tuple[int, ...] = (20_000, 200_000)
    two_workers: int = 200_000
    several: int = 20_000
    isolated: int = 3_000
    requests: int = 1_000
    steps: int = 300
    proofs: int = 60
    sizes: tuple[int, ...] = (1_000, 5_000, 20_000, 200_000)
    idle_s: float = 10.0
    each: int = 40
    few: int = 10
    cold: int = 20
    table_rows: int = 1_000_000
    table_pages: int = 30
    judged: int = 2_000
    judged_memory: tuple[int, int] = (200, 20_000)


FULL = Scale()
LONG = replace(FULL, sizes=(*FULL.sizes, 1_000_000))
QUICK = Scale(
    slow_threads=1_000,
    rounds=5,
    batches=(20_000,),
    two_workers=40_000,
    several=10_000,
    isolated=1_000,
    requests=200,
    steps=60,
    proofs=15,
    sizes=(1_000, 5_000, 20_000),
    each=10,
    few=4,
    cold=0,
    table_rows=20_000,
    table_pages=10,
    judged=500,
    judged_memory=(200, 2_000),
)
SCALES = {"quick": QUICK, "full": FULL, "long": LONG}
