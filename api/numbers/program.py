"""The program: reads a job and streams of lines from standard input, and prints the result as JSON, or an index.

Each job has its own imports: a page of the table waits for this program, and most of its time is spent on imports.
"""

import os
import resource
import sys
from typing import IO

from api.numbers.jobs import OUT_OF_MEMORY, AgreementJob, ComparisonJob, IndexJob, SearchJob, SummaryJob
from api.numbers.lines import read_blocks, read_job, read_lines

_MEMORY_BYTES = 2 << 30
_TIME_S = 90  # of CPU time; the caller's timeout is shorter


def result(file: IO[bytes]) -> bytes:
    """Runs the job in the file and returns its result."""
    job = read_job(file)
    match job:
        case SummaryJob():
            from api.numbers import summary_job

            return summary_job.run(job, read_lines(file))
        case ComparisonJob():
            from api.numbers import comparison_job, outcome_column

            a, b = (outcome_column.read(read_lines(file), side.grader) for side in (job.a, job.b))
            return comparison_job.run(job, a, b).model_dump_json().encode()
        case AgreementJob():
            from api.numbers import agreement_job

            return agreement_job.run(job, read_lines(file), read_lines(file)).model_dump_json().encode()
        case IndexJob():
            from api.numbers import index_job

            return index_job.run(job, read_blocks(file), read_blocks(file))
        case SearchJob():
            from api.numbers import search_job

            return search_job.run(job, (read_blocks(file) for _ in range(2 * len(job.chunks))))


def main() -> int:
    """Runs the job on standard input. Returns the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIME_S, _TIME_S))
    os.nice(5)  # requests that wait for a score have priority
    try:
        found = result(sys.stdin.buffer)
    except MemoryError:
        return OUT_OF_MEMORY
    sys.stdout.buffer.write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
