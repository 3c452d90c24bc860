"""The steps of one build."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Protocol

from gradebox.schemas import EnvironmentPackage
from sandbox import image
from sandbox.environments import DATA, PYTHON, temporary_folder
from sandbox.limits import MIB
from sandbox.pool import Pool
from sandbox.settings import SandboxSettings
from storage.environment_builds import Made
from storage.spool import Readable
from worker.environments import bytecode, contents
from worker.environments.data import DataRefused, unpack
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed, Uv


class ArchiveStore(Protocol):
    """Where what was built is kept."""

    def keep(self, sha256: str, archive: Readable) -> None:
        """Has this content there from now on."""


Told = Callable[[str], None]
"""Is told what is done now, a few times a second. It raises where the build is not wanted any more."""


def build(
    requirements: Sequence[str],
    pool: Pool,
    archives: ArchiveStore,
    settings: EnvironmentSettings,
    told: Told,
    data: IO[bytes] | None = None,
) -> Made:
    """Makes an environment of these requirements and of this data, a zip file, and keeps it.

    Raises:
        BuildFailed: it cannot be made of them.
        OSError: there is no room for it.
    """
    most_mb = SandboxSettings().environment_mb
    with pool.environments.staging() as staged:
        packages = _install(requirements, staged, settings, most_mb, told) if requirements else []
        contents.tidy(staged)
        if data is not None:
            try:
                unpack(data, staged / DATA, most_mb, lambda: told("unpacking the data"))
            except DataRefused as refused:
                raise BuildFailed(str(refused)) from refused
        size, _ = contents.measure(staged, most_mb)
        bytecode.compile_all(pool, staged, most_mb * MIB - size, lambda: told("compiling"))
        image.open_to_read(staged)
        size, files = contents.measure(staged, most_mb)
        with tempfile.TemporaryFile(dir=staged.parent) as archive:
            sha256 = contents.pack(staged, archive, lambda: told("packing"))
            archive.seek(0)
            archives.keep(sha256, _Read(archive, lambda: told("storing")))
        pool.environments.adopt(staged, sha256)
    return Made(packages, sha256, PYTHON, size, files)


def _install(
    requirements: Sequence[str], staged: Path, settings: EnvironmentSettings, most_mb: int, told: Told
) -> list[EnvironmentPackage]:
    with temporary_folder(staged.parent) as folder:
        uv = Uv(folder, settings, most_mb)
        packages = uv.resolve(requirements, lambda: told("resolving"))
        _check_allowed(packages, settings)
        uv.install(packages, staged, lambda: told(f"downloading {len(packages)} packages"))
    return packages


class _Read:
    """A file that tells of each time that it is read: an object store may take long."""

    def __init__(self, file: IO[bytes], goes_on: Callable[[], None]) -> None:
        self._file = file
        self._goes_on = goes_on

    def read(self, size: int = -1, /) -> bytes:
        """Reads on, and tells of it."""
        self._goes_on()
        return self._file.read(size)


def _check_allowed(packages: Sequence[EnvironmentPackage], settings: EnvironmentSettings) -> None:
    allowed = settings.environment_packages
    refused = sorted(one.name for one in packages if one.name not in allowed) if allowed else []
    if refused:
        raise BuildFailed(
            f"{', '.join(refused)} may not be in an environment of this service: its operator allows "
            f"{', '.join(sorted(allowed))} (GRADEBOX_ENVIRONMENT_PACKAGES), dependencies included"
        )
