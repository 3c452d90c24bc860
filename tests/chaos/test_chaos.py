import os
import random
from pathlib import Path

import pytest

from tests.chaos.run import Plan, run


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_kills_lose_double_and_change_nothing(tmp_path: Path) -> None:
    """`make chaos` runs longer. `GRADEBOX_CHAOS_SEED` repeats a run's choices."""
    seed = int(os.environ.get("GRADEBOX_CHAOS_SEED") or random.randrange(1_000_000))
    report = run(Plan(seed, kills=6, completions=2_000, batch=400, pause_s=0.5), tmp_path)
    assert (report.lost, report.duplicated, report.changed) == (0, 0, 0), f"seed {seed}: {report}"
