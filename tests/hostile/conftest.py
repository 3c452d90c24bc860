"""Fixtures: a pool to attack, forbidden resources around it, and a check of what the attacks leave behind."""

from collections.abc import Iterator

import pytest

from sandbox.hostile.surroundings import Surroundings, surroundings
from sandbox.hostile.watched import Watched
from sandbox.pool.pool import Pool
from tests.backends import backend_of, settings_for


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    tmp_path_factory.getbasetemp()  # else pytest creates it in the checked folder
    with surroundings() as around:
        yield around


@pytest.fixture(scope="module")
def attacked(request: pytest.FixtureRequest, around: Surroundings) -> Iterator[Pool]:
    """Yields a pool. Fails at the end if a sandbox left anything behind or connected to the host."""
    settings = settings_for(request.param, load_s=4)
    backend = Watched(backend_of(request.param)(settings))
    with Pool(backend, settings) as pool:
        yield pool
    assert backend.started
    assert backend.left() + around.left() == []
