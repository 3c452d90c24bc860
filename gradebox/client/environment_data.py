"""Data for environments: a folder as one zip file. The same files result in the same bytes."""

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo, is_zipfile

from gradebox.errors import GradeboxError

_MOST_BYTES = 4 << 30  # more than a service accepts, and more than should be in memory at once

DataPath = str | os.PathLike[str]
"""A folder, or a zip file of one."""


def zipped(path: DataPath) -> bytes:
    """A folder as a zip file, or the bytes of an existing zip file. Raises GradeboxError if `path` is neither."""
    place = Path(path).expanduser()
    if place.is_dir():
        return _pack(place)
    if not place.is_file():
        raise GradeboxError(f"{str(path)!r} is not there: name a folder with the data, or a zip file of one")
    if not is_zipfile(place):
        raise GradeboxError(f"{str(path)!r} is no folder and no zip file: put the data into a folder, and name that")
    return place.read_bytes()


def _pack(folder: Path) -> bytes:
    files = [*_files(folder)]
    if not files:
        raise GradeboxError(f"there is no file in {str(folder)!r}")
    if (size := sum(path.stat().st_size for path in files)) > _MOST_BYTES:
        raise GradeboxError(
            f"{str(folder)!r} takes {size / 2**30:.1f} GiB, and at most {_MOST_BYTES >> 30} GiB are sent"
        )
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for path in files:
            entry = ZipInfo(path.relative_to(folder).as_posix())  # dated 1980, so that a copy of a folder is equal
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    """All files, sorted by path. A link to a file counts as that file, since model caches contain links."""
    for below, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        for name in folders:
            if Path(below, name).is_symlink():
                raise GradeboxError(f"{str(Path(below, name))!r} is a link to a folder: put the folder itself there")
        for path in sorted(Path(below, name) for name in names):
            if not path.is_file():
                raise GradeboxError(f"{str(path)!r} is no file, or a link to nothing: remove it from the folder")
            yield path


def _refuse(error: OSError) -> None:
    raise GradeboxError(
        f"{error.filename!r} cannot be read: {error.strerror}. Make it readable, or remove it from the folder"
    ) from error
