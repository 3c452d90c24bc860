"""Tests the hostile graders in sandboxes that have the packages of an environment, with and without a zygote."""

import hashlib
import io
from functools import partial

import pytest

from sandbox import selftest
from sandbox.environments import BUILT_FOR, DATA, MARK
from sandbox.hostile.corpus import corpus
from sandbox.hostile.surroundings import surroundings
from sandbox.hostile.trial import attempt
from sandbox.hostile.watched import Watched
from sandbox.limits import ENVIRONMENT_LOAD_TIMES
from sandbox.pool.pool import Pool
from tests.backends import backend_of, settings_for
from tests.wheels import folder_for_environments, tar_of

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]

FILES = {MARK: BUILT_FOR, "helper/__init__.py": "VALUE = 1\n", f"{DATA}/words.txt": "cat\n"}


# Packages change the mounts alone. Without a zygote the first process starts in another way, and the code of the guest
# that it then runs is the same.
_CATEGORIES = {"escape", "calls"}


@pytest.mark.parametrize("name", ["bubblewrap", "bubblewrap, no zygote"])
def test_with_packages_it_is_as_safe(name: str) -> None:
    packed = tar_of(FILES)
    sha256 = hashlib.sha256(packed).hexdigest()
    with folder_for_environments() as folder, surroundings() as around:
        settings = settings_for(name, environments_dir=folder, load_s=4 / ENVIRONMENT_LOAD_TIMES)
        backend = Watched(backend_of(name)(settings))
        cases = [case for case in corpus() if case.concerns(backend.name) and case.category in _CATEGORIES]
        assert {case.category for case in cases} == _CATEGORIES
        with Pool(backend, settings) as pool:
            pool.environments.fetch_from(lambda _: io.BytesIO(packed), lambda _: None)
            attempted = partial(attempt, pool=pool, canaries=around.canaries, environment=sha256)
            assert {breach.name: breach.faults for breach in selftest.attack(cases, attempted)} == {}
        assert backend.left() + around.left() == []
        assert {path.read_text() for path in (folder / sha256).rglob("*") if path.is_file()} == set(FILES.values())
