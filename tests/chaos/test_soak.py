from pathlib import Path

import pytest

from tests.chaos.soak import Plan, run


@pytest.mark.alone
@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hostile_project_does_not_stop_the_others(tmp_path: Path) -> None:
    """Ten minutes: `make soak`. In so short a time a machine that does other things too needs more room."""
    report = run(Plan(seconds=30, factor=4.0), tmp_path)
    assert report.broken == [], str(report)
