"""The backup of docs/operations.md, of a service that works."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gradebox.conftest import ROOT, serving

pytestmark = [pytest.mark.service, pytest.mark.sandbox]
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.01)\n    return float(thread.completion())\n"
THREADS = [{"completion": str(number)} for number in range(100)]


def steps() -> list[str]:
    """The commands of the page, in their order."""
    page = (ROOT / "docs/operations.md").read_text()
    found = re.search(r"^```sh\n(redis-cli .*?)```", page, re.DOTALL | re.MULTILINE)
    assert found
    return found[1].splitlines()


def test_a_copy_of_a_working_service_has_all_that_was_accepted_before(tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    copy = restored / "data"
    copy.mkdir(parents=True)
    with serving(tmp_path, "--workers", "1") as service, service.client() as client:
        client.graders.create.function(key="slow", fn=SLOW)
        client.graders.create.function(key="half", fn="async def grade(thread): return 0.5")
        running = client.batches.create("slow", THREADS * 10)
        before = client.batches.create("half", THREADS)
        for step in steps():
            command = step.replace("BACKUP", str(copy))
            subprocess.run(["/bin/sh", "-ec", command], cwd=service.data_dir, check=True, stdout=subprocess.DEVNULL)
            before.wait(progress=False, timeout=60)
            client.batches.create("half", THREADS).wait(progress=False, timeout=60)  # between two steps
    shutil.rmtree(service.data_dir)

    with serving(restored, "--workers", "2") as service, service.client() as client:
        for listed in client.batches.list():
            batch = client.batches.get(listed.id)
            batch.wait(progress=False, timeout=60)
            assert not batch.status.errors
            assert len(list(batch.outcomes())) == batch.status.total
        scores = [one.score for one in client.batches.get(running.id).outcomes()]
        assert scores == [float(number) for number in range(100)] * 10
        assert client.batches.get(before.id).status.scored == 100
