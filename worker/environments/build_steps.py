"""The steps of one build."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from gradebox.schemas import LockedPackage
from sandbox import shared_folders
from sandbox.environments import DATA, PYTHON
from sandbox.limits import MIB
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings
from storage.environments.environment_builds import Made
from storage.settings import StorageSettings
from storage.spool.file_store import Readable
from worker.environments import bytecode, installed_files
from worker.environments.data_zip import DataRefused, unpack
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed, Uv

Keep = Callable[[str, Readable], None]
"""Stores the content of an environment, which has this SHA-256."""

ReportStep = Callable[[str], None]
"""Called with the current step a few times a second. Raises if the build is not wanted any more."""


def build(
    packages: Sequence[str],
    pool: Pool,
    keep: Keep | None,
    settings: EnvironmentSettings,
    report_step: ReportStep,
    data: IO[bytes] | None = None,
) -> Made:
    """Builds an environment from packages and a zip file of data. `keep` stores it; None for this machine alone.

    Raises:
        BuildFailed: the environment cannot be built from them.
        OSError: there is no room for it.
    """
    most_mb = SandboxSettings().environment_mb
    reserve = StorageSettings().reserve_mb * MIB
    with pool.environments.staging() as staged:

        def goes_on(step: str, wanted: int = 0) -> None:
            report_step(step)
            if shutil.disk_usage(staged).free < reserve + wanted:
                raise BuildFailed(
                    "the disk of the machine that builds it is nearly full: have the operator free some of it"
                )

        lock, log = _install(packages, staged, pool, settings, most_mb, goes_on) if packages else ([], "")
        installed_files.tidy(staged)
        if data is not None:
            try:
                unpack(data, staged / DATA, most_mb, lambda: goes_on("unpacking the data"))
            except DataRefused as refused:
                raise BuildFailed(str(refused)) from refused
        size, _ = installed_files.measure(staged, most_mb)
        bytecode.compile_all(pool, staged, most_mb * MIB - size, lambda: goes_on("compiling"))
        shared_folders.open_to_read(staged)
        size, files = installed_files.measure(staged, most_mb)
        goes_on("packing", size)
        with tempfile.TemporaryFile(dir=staged.parent) as archive:
            sha256 = installed_files.pack(staged, archive, lambda: goes_on("packing"))
            if keep is not None:
                archive.seek(0)
                keep(sha256, _Read(archive, lambda: goes_on("storing")))
        pool.environments.adopt(staged, sha256)
    return Made(lock, sha256, PYTHON, size, files, log)


def _install(
    packages: Sequence[str],
    staged: Path,
    pool: Pool,
    settings: EnvironmentSettings,
    most_mb: int,
    report_step: ReportStep,
) -> tuple[list[LockedPackage], str]:
    """Returns the lock, and what uv printed."""
    with pool.environments.temporary() as folder:
        uv = Uv(folder, settings, most_mb)
        lock = uv.resolve(packages, lambda: report_step("resolving"))
        _check_allowed(lock, settings)
        uv.install(lock, staged, lambda: report_step(f"downloading {len(lock)} packages"))
    return lock, uv.log


class _Read:
    """A file that calls `goes_on` at each read, because an object store may take long."""

    def __init__(self, file: IO[bytes], goes_on: Callable[[], None]) -> None:
        self._file = file
        self._goes_on = goes_on

    def read(self, size: int = -1, /) -> bytes:
        """Calls `goes_on`, then reads the next bytes."""
        self._goes_on()
        return self._file.read(size)


def _check_allowed(lock: Sequence[LockedPackage], settings: EnvironmentSettings) -> None:
    allowed = settings.environment_packages
    refused = sorted(one.name for one in lock if one.name not in allowed) if allowed else []
    if refused:
        raise BuildFailed(
            f"{', '.join(refused)} may not be in an environment of this service: its operator allows "
            f"{', '.join(sorted(allowed))} (GRADEBOX_ENVIRONMENT_PACKAGES), dependencies included"
        )
