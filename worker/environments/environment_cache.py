"""Environments of this machine, for `gradebox run`: built once, and found again by a hash of what they consist of."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import msgspec

from sandbox.environments import BUILT_FOR, EnvironmentFolders
from sandbox.pool.pool import Pool
from worker.environments.build_steps import ReportStep, build
from worker.environments.settings import EnvironmentSettings

_NOTE = ".run-"  # the beginning of a note's name


class Built(msgspec.Struct, frozen=True):
    """An environment of this machine, and the names of its packages."""

    sha256: str
    packages: list[str]


def environment_of(
    packages: Sequence[str], data: bytes | None, pool: Pool, settings: EnvironmentSettings, report_step: ReportStep
) -> Built:
    """The environment of these packages and data; builds it if this machine does not have it.

    A package without a version is the newest one at the time of the build. Removes folders unused for two weeks,
    and their notes.

    Raises:
        BuildFailed: the environment cannot be built.
        OSError: there is no room for it.
    """
    folders = pool.environments
    folders.sweep()
    known = dict(_notes(folders))
    for old, built in [*known.items()]:
        if not (folders.folder / built.sha256).is_dir():
            old.unlink(missing_ok=True)
            del known[old]
    asked = [sorted(packages), data and hashlib.sha256(data).hexdigest(), BUILT_FOR, settings.model_dump()]
    note = folders.folder / f"{_NOTE}{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}"
    if note in known:
        return known[note]
    made = build(packages, pool, None, settings, report_step, None if data is None else BytesIO(data))
    built = Built(made.sha256, [package.name for package in made.lock])
    whole = note.with_suffix(".new")
    whole.write_bytes(msgspec.json.encode(built))
    whole.replace(note)
    return built


def noted(folders: EnvironmentFolders) -> set[str]:
    """The environments that `gradebox run` has built on this machine. Raises OSError if they cannot be read."""
    return {built.sha256 for _, built in _notes(folders)}


def _notes(folders: EnvironmentFolders) -> Iterator[tuple[Path, Built]]:
    for note in folders.folder.glob(f"{_NOTE}*"):
        with suppress(FileNotFoundError, msgspec.DecodeError):  # it is being written, or removed
            yield note, msgspec.json.decode(note.read_bytes(), type=Built)
