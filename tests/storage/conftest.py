"""Fixtures for tests of the spool: each kind of place that it may be in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.spool.spool import Spool
from tests.object_store import object_store


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture(params=["file", "memory", "s3"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool:
    if request.param == "s3":
        return Spool(f"{request.getfixturevalue('bucket')}/{tmp_path.name}")
    return Spool(f"file://{tmp_path}/spool" if request.param == "file" else f"memory://{tmp_path.name}")
