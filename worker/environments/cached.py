"""Environments of this machine alone, for `gradebox run`: built once, and found again by what they were made of."""

import hashlib
import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import msgspec

from sandbox.environments import BUILT_FOR, EnvironmentFolders
from sandbox.pool import Pool
from storage.spool import Readable
from worker.environments.build import Told, build
from worker.environments.settings import EnvironmentSettings


class _Nowhere:
    """No archive is kept: what was built stays in its folder on this machine."""

    def keep(self, sha256: str, archive: Readable) -> None:
        """Keeps nothing."""


class Built(msgspec.Struct, frozen=True):
    """An environment of this machine."""

    sha256: str
    packages: list[str]


def environment_of(
    requirements: Sequence[str], data: bytes | None, pool: Pool, settings: EnvironmentSettings, told: Told
) -> Built:
    """An environment of these, which is built where this machine has none.

    A requirement without a version is the newest of when it was built. Folders that nobody used for two weeks go.

    Raises:
        BuildFailed: it cannot be made.
        OSError: there is no room for it.
    """
    folders = pool.environments
    folders.sweep()
    asked = [sorted(requirements), data and hashlib.sha256(data).hexdigest(), BUILT_FOR, settings.model_dump()]
    note = folders.folder / f".run-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}"
    if (before := _built_before(folders, note)) is not None:
        return before
    made = build(requirements, pool, _Nowhere(), settings, told, None if data is None else BytesIO(data))
    built = Built(made.sha256, [package.name for package in made.packages])
    whole = note.with_suffix(".new")
    whole.write_bytes(msgspec.json.encode(built))
    whole.replace(note)
    return built


def _built_before(folders: EnvironmentFolders, note: Path) -> Built | None:
    """What a note tells of, where its folder is still there."""
    try:
        built = msgspec.json.decode(note.read_bytes(), type=Built)
    except FileNotFoundError:
        return None
    return built if (folders.folder / built.sha256).is_dir() else None
