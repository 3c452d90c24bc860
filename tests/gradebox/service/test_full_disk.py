import contextlib
import os
import time
from pathlib import Path

import httpx
import pytest

from gradebox.client import BatchHandle
from gradebox.errors import ApiError
from tests.gradebox.conftest import Service, serving

pytestmark = [pytest.mark.service, pytest.mark.sandbox, pytest.mark.slow]
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.002)\n    return float(thread.completion())\n"
MIB = 1024 * 1024


def fill(disk: Path, free: int) -> Path:
    """Fills the disk up to so many free bytes, or completely."""
    filler = disk / f"filler-{free}"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while (room := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - free) > 0:
            file.write(bytes(min(room, MIB)))
    return filler


def refused(service: Service) -> httpx.Response:
    query, lines = {"grader": "slow"}, b'{"completion": "1"}\n'
    headers = {"Authorization": f"Bearer {service.key}", "Content-Type": "application/x-ndjson"}
    return httpx.post(f"{service.url}/v1/projects/default/batches", params=query, content=lines, headers=headers)


def done(batch: BatchHandle) -> int:
    with contextlib.suppress(ApiError):
        batch.refresh()
    return batch.status.done


@pytest.mark.parametrize("disk", [128], indirect=True)
def test_a_disk_that_is_full_refuses_what_is_new_and_loses_nothing(disk: Path) -> None:
    with serving(disk, "--workers", "1", reserve_mb="32") as service, service.client() as client:
        client.graders.create.function(key="slow", fn=SLOW)
        batch = client.batches.create("slow", [{"completion": str(number)} for number in range(1_000)])
        first = fill(disk, 24 * MIB)
        response = refused(service)
        assert (response.status_code, response.headers["retry-after"]) == (507, "30")
        assert "no space" in response.json()["detail"]

        second = fill(disk, 0)
        time.sleep(4)
        before = done(batch)
        assert before < 1_000
        assert refused(service).status_code in (503, 507)

        for filler in (first, second):
            filler.unlink()
        batch.wait(progress=False, timeout=90)
        assert [one.score for one in batch.outcomes()] == [float(number) for number in range(1_000)]
        assert client.batches.create("slow", [{"completion": "1"}]).wait(progress=False, timeout=30).scored == 1
