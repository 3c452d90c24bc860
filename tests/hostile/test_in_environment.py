"""Tests the hostile graders in sandboxes that have the packages of an environment."""

import hashlib
import io
import tarfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.environments import BUILT_FOR, DATA, MARK
from sandbox.hostile.cases import Case
from sandbox.hostile.corpus import corpus
from sandbox.hostile.surroundings import Surroundings, surroundings
from sandbox.hostile.trial import attempt, is_of_time
from sandbox.hostile.watched import Watched
from sandbox.limits import ENVIRONMENT_LOAD_TIMES
from sandbox.pool import Pool
from tests.backends import backend_of, settings_for
from tests.wheels import folder_for_environments

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]

_AT_ONCE = 4
FILES = {MARK: BUILT_FOR, "helper/__init__.py": "VALUE = 1\n", f"{DATA}/words.txt": "cat\n"}


def archive() -> bytes:
    """A small environment."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for name, text in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            file.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def breaches(name: str, folder: Path, around: Surroundings, categories: Collection[str]) -> dict[str, list[str]]:
    """Tries the cases of these categories, or all cases, on a backend. Returns each failed case with its faults."""
    packed = archive()
    sha256 = hashlib.sha256(packed).hexdigest()
    settings = settings_for(name, environments_dir=folder, load_s=4 / ENVIRONMENT_LOAD_TIMES)
    backend = Watched(backend_of(name)(settings))
    cases = [
        case for case in corpus() if case.concerns(backend.name) and (not categories or case.category in categories)
    ]
    assert cases
    with Pool(backend, settings) as pool:
        pool.environments.fetch_from(lambda _: io.BytesIO(packed))

        def tried(case: Case) -> list[str]:
            return attempt(case, pool, around.canaries, sha256)

        with ThreadPoolExecutor(_AT_ONCE) as several:
            all_faults = [*several.map(tried, cases)]
        found = {}
        for case, faults in zip(cases, all_faults, strict=True):
            for pause_s in (0, 2, 4, 8):
                if faults and all(map(is_of_time, faults)):
                    time.sleep(pause_s)
                    faults = tried(case)
            found[case.name] = faults
    left = backend.left() + around.left()
    assert {path.read_text() for path in (folder / sha256).rglob("*") if path.is_file()} == set(FILES.values())
    return {name: faults for name, faults in (found | {"left behind": left}).items() if faults}


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
