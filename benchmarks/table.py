"""The table of a large batch: the time to make its index, and then of a page for each order and filter.

A real service has scored the batch. One client times each page over HTTP, from request to response; the memory is that
of the API process.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import processes, threads, timing
from benchmarks.results import MEBIBYTES, MILLIS, Results
from benchmarks.scale import Scale
from benchmarks.service import Service, running
from gradebox.client import BatchHandle
from gradebox.schemas.outcome_table import MOST_ROWS

TABLE = "table of a batch"
_BIG = 1_000_000  # the rows that the targets are for
_DEEP = 200  # the number of a page far behind
_PAGES: dict[str, dict[str, object]] = {
    **{f"sorted by {sort}": {"sort": sort} for sort in ("index", "-index", "score", "-score", "run_ms", "-run_ms")},
    "by -score, far behind": {"sort": "-score", "page": _DEEP},
    "errors": {"kind": "error"},
    "errors, by -run_ms": {"kind": "error", "sort": "-run_ms"},
    "of one bin": {"bin": 7},
    "of one bin, by run_ms": {"bin": 7, "sort": "run_ms"},
    "of a range, far behind": {"low": 0.123, "high": 0.876, "page": _DEEP},
    "of a range, by -score": {"low": 0.123, "high": 0.876, "sort": "-score"},
    f"{MOST_ROWS} rows by -score": {"sort": "-score", "limit": MOST_ROWS},
}


def measure(results: Results, scale: Scale) -> None:
    """Measures one batch of one grader."""
    count = scale.table_rows
    with running(workers=2, graders=()) as service:
        sample = [json.loads(line) for line in _lines(1)]
        service.client.graders.create.function(
            key="uneven", fn=threads.source("uneven"), isolation="batch", threads=sample
        )
        batch = service.client.batches.create("uneven", _file(count))
        batch.wait(progress=False)
        _measure(results, service, batch, scale)


def _measure(results: Results, service: Service, batch: BatchHandle, scale: Scale) -> None:
    count, api = scale.table_rows, service.role("api")
    is_big = count == _BIG
    before = processes.rss(api)
    processes.forget_peak(api)
    took = timing.seconds(batch.table)
    note = f"of {count:,} outcomes, with the first page"
    results.add(TABLE, "making the index", took, "s", target=5.0 if is_big else None, at_most=True, note=note)
    (index,) = threads.folder().glob("gradebox-bench-*/spool/outcomes/*/index-*")
    size = index.stat().st_size / 2**20
    results.add(TABLE, "size of the index", size, MEBIBYTES, target=32.0 if is_big else None, at_most=True)
    for name, asked in _PAGES.items():
        times = [_seconds(batch, asked) for _ in range(scale.table_pages)]
        note = f"median of {len(times)}, slowest {max(times) * 1e3:.1f} ms; 50 rows unless it says otherwise"
        target = 50.0 if is_big and asked.get("limit") is None else None
        results.add(TABLE, name, median(times) * 1e3, MILLIS, target=target, at_most=True, note=note)
    for name, text in (("text that one completion has", f"row {count - 1} "), ("text that all have", "apples")):
        started = perf_counter()
        found = batch.table(text=text)
        note = f"{found.total:,} found in {found.searched:,} outcomes{', cut' if found.is_cut else ''}"
        results.add(TABLE, name, (perf_counter() - started) * 1e3, MILLIS, note=note)
    times = [timing.seconds(batch.error_groups) for _ in range(scale.table_pages)]
    results.add(TABLE, "errors in groups", median(times) * 1e3, MILLIS)
    note = f"peak RSS, {before:.0f} MiB before"
    results.add(TABLE, "API", processes.peak_rss(api), MEBIBYTES, note=note)


def _seconds(batch: BatchHandle, asked: dict[str, object]) -> float:
    started = perf_counter()
    if not batch.table(**asked).rows:  # type: ignore[arg-type]  # the keys are names of parameters
        raise RuntimeError(f"there is no row of {asked}")
    return perf_counter() - started


def _file(count: int) -> Path:
    path = threads.folder() / f"table-{count}.jsonl"
    with path.open("w") as file:
        file.writelines(_lines(count))
    return path


def _lines(count: int) -> Iterator[str]:
    """Threads of about 500 bytes, each with a different text."""
    sold = "then we sell half of the apples that are left, so there are fewer than before; " * 4
    for number in range(count):
        thread = {
            "id": f"row-{number}",
            "prompt": f"How many apples are in basket {number}?",
            "completion": f"In row {number} {sold}#### {number % 997}",
            "metadata": {"number": number},
        }
        yield json.dumps(thread) + "\n"
