from pathlib import Path

import pytest

from tests.chaos.soak import Plan, run


@pytest.mark.alone
@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hostile_project_does_not_stop_the_others(tmp_path: Path) -> None:
    """`make soak` runs ten minutes. In a short run, with a few scores, other load on the machine matters more, so the
    limits are larger. A project that is shut out waits for seconds.
    """
    report = run(Plan(seconds=10, factor=4.0, least_s=0.25), tmp_path)
    assert report.broken == [], str(report)
