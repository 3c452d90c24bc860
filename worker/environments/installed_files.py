"""Cleans, measures and packs the unpacked files of an environment."""

import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sandbox import shared_folders
from sandbox.environments import BUILT_FOR, DATA, MARK, Hashed
from sandbox.limits import ENVIRONMENT_FILES, MIB
from worker.environments.uv import BuildFailed

# In the folder itself: programs, and modules that Python runs at startup. Sandboxes run neither. Data is added later.
_REMOVED = {DATA, MARK, "bin", "include", ".lock"}
_AT_STARTUP = {"sitecustomize", "usercustomize"}
# Files in which uv records the origin of a package and the time of its installation. They would make archives of equal
# contents differ.
_NOTES = {"uv_cache.json", "direct_url.json", "INSTALLER", "REQUESTED"}
_LONGEST_PATH = 300


def tidy(folder: Path) -> None:
    """Removes what no grader imports, and makes all other files readable for all users and executable for none.

    Raises:
        BuildFailed: the folder contains something other than files and folders.
    """
    for path in folder.rglob("*"):  # first, because the later steps would follow links
        kind = path.lstat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise BuildFailed(f"{path.relative_to(folder)} is neither a file nor a folder")
    for path in [*folder.iterdir()]:
        # Python finds modules of the standard library first, except those that sandboxes lack, such as tkinter.
        module = path.name.partition(".")[0]
        is_of_python = module in sys.stdlib_module_names or module in _AT_STARTUP
        if path.name in _REMOVED or path.suffix == ".pth" or is_of_python:
            _remove(path)
        elif path.name.endswith(".dist-info") and path.is_dir():
            for note in _NOTES:
                _remove(path / note)
    for path in [*folder.rglob("__pycache__")]:  # the byte code in a package may differ from its source
        _remove(path)
    for path in [*folder.rglob("*")]:
        if path.suffix == ".pyc":
            _remove(path)
        elif path.is_file():
            path.chmod(0o644)  # not executable
    (folder / MARK).write_text(BUILT_FOR)
    shared_folders.open_to_read(folder)


def _remove(path: Path) -> None:
    """Removes a file or a folder, which may have been removed with a folder above it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def measure(folder: Path, most_mb: int) -> tuple[int, int]:
    """The size in bytes and the number of files.

    Raises:
        BuildFailed: the environment is too large, or a path is too long.
    """
    size = files = 0
    for path, relative in _files(folder):
        size, files = size + path.stat().st_size, files + 1
        if len(relative) > _LONGEST_PATH:
            raise BuildFailed(f"the path {relative[:100]}… is {len(relative)} characters long")
    if size > most_mb * MIB or files > ENVIRONMENT_FILES:
        raise BuildFailed(
            f"it takes {size / MIB:.0f} MiB in {files} files, and an environment may take {most_mb} MiB "
            f"(GRADEBOX_ENVIRONMENT_MB) in {ENVIRONMENT_FILES} files: ask for fewer packages, or less data"
        )
    return size, files


def pack(folder: Path, file: IO[bytes], goes_on: Callable[[], None]) -> str:
    """Writes a reproducible archive: equal contents give equal archives. Returns its SHA-256."""
    hashed = Hashed(file)
    with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]  # any object that writes
        for path, relative in _files(folder):
            goes_on()
            member = tarfile.TarInfo(relative)
            member.size = path.stat().st_size
            member.mode = 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)
    return hashed.sha256


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """All files with their relative paths, in a fixed order."""
    found = []
    for below, folders, names in os.walk(folder):
        folders.sort()
        found += [Path(below, name) for name in names]
    for relative, path in sorted((path.relative_to(folder).as_posix(), path) for path in found):
        yield path, relative
