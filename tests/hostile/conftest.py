"""A pool to be attacked, with something to find around it, and a look at what it leaves behind."""

from collections.abc import Iterator

import pytest

from sandbox.hostile.surroundings import Surroundings, surroundings
from sandbox.hostile.watched import Watched
from sandbox.pool import Pool
from tests.backends import NAMES, backend_of, settings_for


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    tmp_path_factory.getbasetemp()  # made now, or pytest makes it among what is looked at
    with surroundings() as around:
        yield around


@pytest.fixture(scope="module", params=NAMES)
def attacked(request: pytest.FixtureRequest, around: Surroundings) -> Iterator[Pool]:
    """Sandboxes; when the last test has ended, nothing may be left of them, and nobody may have called."""
    settings = settings_for(request.param, load_s=4)
    backend = Watched(backend_of(request.param)(settings))
    with Pool(backend, settings) as pool:
        yield pool
    assert backend.started
    assert backend.left() + around.left() == []
