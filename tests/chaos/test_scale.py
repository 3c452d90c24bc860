from pathlib import Path

import pytest

from tests.chaos.scale import run


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_large_batch_takes_no_more_memory_than_a_small_one_and_leaves_nothing(tmp_path: Path) -> None:
    """`make scale` scores a million."""
    report = run(100_000, tmp_path)
    assert (report.wrong, report.growing) == (0, []), str(report)
    assert not report.after.more_than(report.before), str(report)
