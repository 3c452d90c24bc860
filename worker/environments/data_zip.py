"""Data beside the packages: a zip file of a tenant. Its directory is checked before anything is unpacked."""

import stat
import struct
import tempfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from sandbox.environments import Hashed
from sandbox.limits import ENVIRONMENT_FILES, MIB

DEPTH = 16  # nested folders
LONGEST_PATH = 250  # bytes
MOST_MB = 4000  # the limit of zip files without the zip64 extension
_END = struct.Struct("<4s4H2LH")  # the end record: signature, disks, entries, directory size and offset, comment length
_COMMENT_BYTES = 0xFFFF
_LOCATOR_BYTES = 20  # before the end record, in a zip file with the zip64 extension
_DIRECTORY_BYTES = 16 * MIB  # more than ENVIRONMENT_FILES entries take if their paths have usual lengths
_ENCRYPTED = 0x1
_BROKEN = (BadZipFile, NotImplementedError, EOFError, ValueError, struct.error, zlib.error)  # of zipfile, for bad files


class DataRefused(ValueError):
    """The data is not acceptable. The message describes what to change."""


def check(file: IO[bytes], most_mb: int) -> list[ZipInfo]:
    """The files of a zip file, which must be seekable. Unpacks nothing.

    Raises:
        DataRefused: it is not a zip file, contains something other than files, or exceeds a limit.
    """
    _check_end(file)
    try:
        with ZipFile(file) as archive:
            entries = archive.infolist()
    except _BROKEN as error:
        raise DataRefused(f"the data is no zip file that can be read: {error}") from error
    names = _Names()
    for entry in entries:
        _check_kind(entry)
        names.add(entry)
    files = [entry for entry in entries if not entry.is_dir()]
    if not files:
        raise DataRefused("there is no file in the data")
    size = sum(entry.file_size for entry in files)
    if size > most_mb * MIB:
        raise DataRefused(
            f"the data takes {size / MIB:.0f} MiB unpacked, and an environment may take {most_mb} MiB "
            "(GRADEBOX_ENVIRONMENT_MB)"
        )
    return files


def unpack(file: IO[bytes], folder: Path, most_mb: int, goes_on: Callable[[], None]) -> None:
    """Unpacks a zip file into a new folder.

    Raises:
        DataRefused: as `check` does, or if the content does not match the directory.
    """
    entries = check(file, most_mb)
    folder.mkdir()
    with ZipFile(file) as archive:
        for entry in entries:
            goes_on()
            path = folder / entry.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                # zipfile returns no more bytes than the size in the directory, which `check` has bounded.
                with archive.open(entry) as source, path.open("xb") as target:
                    _copy(source, target, goes_on)
            except (*_BROKEN, RuntimeError) as error:
                raise DataRefused(f"{entry.filename} cannot be unpacked: {error}") from error


@contextmanager
def fetched(source: IO[bytes], sha256: str, folder: Path, goes_on: Callable[[], None]) -> Iterator[IO[bytes]]:
    """A copy of uploaded data in a folder of this machine. Raises OSError if its hash is not `sha256`."""
    hashed = Hashed(source)
    with tempfile.TemporaryFile(dir=folder) as copy:
        _copy(hashed, copy, goes_on)
        if hashed.sha256 != sha256:
            raise OSError(f"the data {sha256} was changed or cut off: it has the hash {hashed.sha256}")
        yield copy


def _copy(source: IO[bytes] | Hashed, target: IO[bytes], goes_on: Callable[[], None]) -> None:
    while block := source.read(MIB):
        goes_on()
        target.write(block)


def _check_end(file: IO[bytes]) -> None:
    """Bounds the size and the number of entries, from the end record that zipfile uses, because zipfile reads all
    entries at once.
    """
    size = file.seek(0, 2)
    tail_bytes = min(size, _LOCATOR_BYTES + _END.size + _COMMENT_BYTES)
    file.seek(size - tail_bytes)
    tail = file.read(tail_bytes)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise DataRefused("the data is no zip file, or was cut off: send a folder, or a file that `zip -r` made")
    *_, length, _, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        raise DataRefused("the data is no zip file, or something follows behind it: send what `zip -r` made, unchanged")
    begins = size - len(tail) + at - length
    is_large = tail[max(0, at - _LOCATOR_BYTES) : at].startswith(b"PK\6\7")
    if not is_large and length <= _DIRECTORY_BYTES and begins >= 0:
        file.seek(begins)
        if file.read(length).count(b"PK\1\2") <= ENVIRONMENT_FILES:  # the signature of an entry
            return
    raise DataRefused(f"there are too many files in the data: an environment may have {ENVIRONMENT_FILES}")


def _check_kind(entry: ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    shown = repr(entry.filename[:100])
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise DataRefused(f"{shown} in the data is a link or a device: put the file itself there")
    if entry.flag_bits & _ENCRYPTED:
        raise DataRefused(f"{shown} in the data is encrypted: send it as it is")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DataRefused(f"{shown} in the data is compressed in a way that is not read: use deflate, as `zip -r` does")


class _Names:
    """The paths of a zip file. Ensures that all are below one folder and are distinct on every file system."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}  # the result of `_same` to the path as written

    def add(self, entry: ZipInfo) -> None:
        """Adds the path of an entry. Raises DataRefused."""
        path = entry.filename.removesuffix("/")
        parts = path.split("/")
        self._check(entry, path, parts)
        folders = ["/".join(parts[:number]) for number in range(1, len(parts) + entry.is_dir())]
        for folder in folders:
            same = _same(folder)
            if same in self._files or self._folders.setdefault(same, folder) != folder:
                raise DataRefused(_twice(folder))
        if len(self._folders) > ENVIRONMENT_FILES:  # each path may have folders of its own
            raise DataRefused(f"there are more than {ENVIRONMENT_FILES} folders in the data: put more files in each")
        if not entry.is_dir():
            same = _same(path)
            if same in self._files or same in self._folders:
                raise DataRefused(_twice(path))
            self._files.add(same)

    def _check(self, entry: ZipInfo, path: str, parts: Sequence[str]) -> None:
        shown = repr(path[:100])
        if entry.filename != entry.orig_filename or "\\" in path or not path.isprintable():
            raise DataRefused(f"the path {shown} in the data holds a backslash, or what cannot be printed: rename it")
        if not path or {"", ".", ".."} & set(parts):
            raise DataRefused(f"the path {shown} in the data does not lie below its folder: write it without / and ..")
        if len(path.encode()) > LONGEST_PATH or len(parts) > DEPTH:
            raise DataRefused(
                f"the path {shown} in the data is too long: {LONGEST_PATH} bytes and {DEPTH} folders are allowed"
            )


def _same(path: str) -> str:
    """A normal form that is equal for paths that a file system may not distinguish."""
    return unicodedata.normalize("NFC", path.casefold())


def _twice(path: str) -> str:
    return (
        f"the path {path[:100]!r} is in the data twice, perhaps once in capitals or in other letters that look alike: "
        "rename one"
    )
