"""What stays of what was unpacked, within which bounds, and how it is packed."""

import hashlib
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sandbox import image
from sandbox.environments import BUILT_FOR, DATA, MARK
from sandbox.limits import ENVIRONMENT_FILES, MIB
from worker.environments.uv import BuildFailed

# Of the folder itself: programs, and what Python would run as it starts. Sandboxes run neither. Data comes later.
_REMOVED = {DATA, "bin", "include", ".lock", "sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"}
# Of what uv notes of a package: where it came from and when, so that equal contents would differ.
_NOTES = {"uv_cache.json", "direct_url.json", "INSTALLER", "REQUESTED"}
_LONGEST_PATH = 300


def tidy(folder: Path) -> None:
    """Removes what no grader imports, and makes all else plain files that everybody may read and nobody may run.

    Raises:
        BuildFailed: it holds something else than files.
    """
    for path in folder.rglob("*"):  # before anything else, which would follow links
        kind = path.lstat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise BuildFailed(f"{path.relative_to(folder)} is neither a file nor a folder")
    for path in [*folder.iterdir()]:
        # Python finds its own modules first, but not those that sandboxes lack, such as tkinter.
        is_of_python = path.name.partition(".")[0] in sys.stdlib_module_names
        if path.name in _REMOVED or path.suffix == ".pth" or is_of_python:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif path.name.endswith(".dist-info") and path.is_dir():
            for note in _NOTES:
                (path / note).unlink(missing_ok=True)
    for path in [*folder.rglob("__pycache__")]:  # what a package brings need not be what its source says
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in [*folder.rglob("*")]:
        if path.suffix == ".pyc":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif path.is_file():
            path.chmod(0o644)  # nothing of it can be run
    (folder / MARK).write_text(BUILT_FOR)
    image.open_to_read(folder)


def measure(folder: Path, most_mb: int) -> tuple[int, int]:
    """How many bytes it takes, and how many files.

    Raises:
        BuildFailed: it is too large.
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
    """Writes an archive that is the same for the same content. Returns its SHA-256."""
    hashed = _Hashing(file)
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
    """All files by their paths, in an order that is always the same."""
    found = []
    for below, folders, names in os.walk(folder):
        folders.sort()
        found += [Path(below, name) for name in names]
    for relative, path in sorted((path.relative_to(folder).as_posix(), path) for path in found):
        yield path, relative


class _Hashing:
    """A file that is written once, and hashed meanwhile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Writes on."""
        self._hash.update(data)
        return self._file.write(data)

    @property
    def sha256(self) -> str:
        """Of what was written."""
        return self._hash.hexdigest()
