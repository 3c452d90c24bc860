from pathlib import Path

import pytest

from tests.chaos.soak import Plan, run


@pytest.mark.alone
@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hostile_project_does_not_stop_the_others(tmp_path: Path) -> None:
    """`make soak` runs ten minutes. In a short run other load on the machine matters more, so the factor is larger."""
    report = run(Plan(seconds=20, factor=4.0), tmp_path)
    assert report.broken == [], str(report)
