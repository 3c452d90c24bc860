import io

import pytest

from api.numbers.job_input import read_job, read_lines, write
from api.numbers.jobs import SummaryJob


def test_lines_come_out_wherever_blocks_end() -> None:
    file = io.BytesIO()
    job = SummaryJob(["g@1"], 7)
    write(file, job, [[b"on", b"e\n\ntw", b"", b"o\n"], [], [b"three"]])
    file.seek(0)
    assert read_job(file) == job
    assert [list(read_lines(file)) for _ in range(3)] == [[b"one", b"", b"two"], [], [b"three"]]


def test_input_that_breaks_off_is_an_error() -> None:
    file = io.BytesIO()
    write(file, SummaryJob([], 0), [[b"a line\n"]])
    broken = io.BytesIO(file.getvalue()[:-12])
    read_job(broken)
    with pytest.raises(EOFError, match="ended after"):
        list(read_lines(broken))
