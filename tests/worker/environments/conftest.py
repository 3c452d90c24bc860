"""Fixtures that build environments."""

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from storage.environments.environment_builds import Made
from storage.spool.file_store import Readable
from tests.backends import STARTED, backend_of, settings_for
from tests.wheels import folder_for_environments
from worker.environments.build_steps import build
from worker.environments.settings import EnvironmentSettings


class Kept:
    """Keeps archives in memory."""

    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}

    def keep(self, sha256: str, archive: Readable) -> None:
        self.archives[sha256] = archive.read()

    def fetch(self, sha256: str) -> IO[bytes]:
        if sha256 not in self.archives:
            raise FileNotFoundError(sha256)
        return io.BytesIO(self.archives[sha256])


@pytest.fixture(scope="session")
def unpacked() -> Iterator[Path]:
    with folder_for_environments() as folder:
        yield folder


@pytest.fixture(scope="session")
def kept() -> Kept:
    """The archives of all builds."""
    return Kept()


@pytest.fixture(scope="session")
def builder(unpacked: Path, kept: Kept) -> Iterator[Pool]:
    with open_pool(SandboxSettings(environments_dir=unpacked, load_s=20.0)) as pool:
        pool.environments.fetch_from(kept.fetch, lambda _: None)
        yield pool


Builds = Callable[..., Made]


@pytest.fixture(scope="session")
def builds(builder: Pool, kept: Kept) -> Builds:
    """Builds from the wheels of an index, by default of this machine's index."""

    def builds(wheels: Path | None, packages: Sequence[str], data: bytes | None = None, **settings: object) -> Made:
        index = {"environments_index": wheels.as_uri()} if wheels else {}
        told = EnvironmentSettings.model_validate({**index, **settings})
        return build(packages, builder, kept.keep, told, lambda _: None, None if data is None else io.BytesIO(data))

    return builds


@pytest.fixture(scope="session", params=STARTED)
def anywhere(request: pytest.FixtureRequest, unpacked: Path, kept: Kept) -> Iterator[Pool]:
    """A pool on each backend."""
    settings = settings_for(request.param, environments_dir=unpacked, load_s=1.0)
    with Pool(backend_of(request.param)(settings), settings) as pool:
        pool.environments.fetch_from(kept.fetch, lambda _: None)
        yield pool
