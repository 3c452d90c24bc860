"""Tests the hostile graders in sandboxes that have the packages of an environment."""

import hashlib
import io
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import pytest

from sandbox import selftest
from sandbox.environments import BUILT_FOR, DATA, MARK
from sandbox.hostile.corpus import corpus
from sandbox.hostile.surroundings import Surroundings, surroundings
from sandbox.hostile.trial import attempt
from sandbox.hostile.watched import Watched
from sandbox.limits import ENVIRONMENT_LOAD_TIMES
from sandbox.pool import Pool
from tests.backends import backend_of, settings_for
from tests.wheels import folder_for_environments, tar_of

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]

FILES = {MARK: BUILT_FOR, "helper/__init__.py": "VALUE = 1\n", f"{DATA}/words.txt": "cat\n"}


def breaches(name: str, folder: Path, around: Surroundings, categories: Collection[str]) -> dict[str, list[str]]:
    """Tries the cases of these categories, or all cases, on a backend. Returns each failed case with its faults."""
    packed = tar_of(FILES)
    sha256 = hashlib.sha256(packed).hexdigest()
    settings = settings_for(name, environments_dir=folder, load_s=4 / ENVIRONMENT_LOAD_TIMES)
    backend = Watched(backend_of(name)(settings))
    cases = [
        case for case in corpus() if case.concerns(backend.name) and (not categories or case.category in categories)
    ]
    assert cases
    with Pool(backend, settings) as pool:
        pool.environments.fetch_from(lambda _: io.BytesIO(packed))

        attempted = partial(attempt, pool=pool, canaries=around.canaries, environment=sha256)
        found = {breach.name: breach.faults for breach in selftest.attack(cases, attempted)}
    left = backend.left() + around.left()
    assert {path.read_text() for path in (folder / sha256).rglob("*") if path.is_file()} == set(FILES.values())
    return found | ({"left behind": left} if left else {})


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with surroundings() as around:
        yield around


# The categories that attack mounts and the channel between sandbox and host. Each takes some seconds.
_TRIED = {
    "bubblewrap": ("escape", "calls", "channel", "reuse"),
    "bubblewrap, no zygote": ("escape", "calls"),
}


@pytest.mark.parametrize("name", _TRIED)
def test_with_packages_it_is_as_safe(name: str, around: Surroundings) -> None:
    with folder_for_environments() as folder:
        assert breaches(name, folder, around, _TRIED[name]) == {}
