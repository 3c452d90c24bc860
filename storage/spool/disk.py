"""Writing files of a folder durably."""

import ctypes
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk, or a disk quota, that is full."""

_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def push(file: IO[bytes]) -> None:
    """Makes the kernel start writing the file to disk, without waiting: a later sync then has little left to do.

    An error of that write is reported only by the sync. Raises OSError if the kernel does not accept the bytes.
    """
    file.flush()
    _sync_file_range(file.fileno(), 0, 0, _SYNC_FILE_RANGE_WRITE)  # from offset 0 to the end


def sync(file: IO[bytes]) -> None:
    """Returns when the file's bytes are on disk. Raises OSError if they cannot be written."""
    file.flush()
    os.fsync(file.fileno())


def check_writes(path: Path) -> None:
    """Writes a byte to this file. Raises OSError if it does not reach the disk, but not if the disk is full."""
    try:
        with path.open("wb") as file:
            file.write(b"\n")
            sync(file)
    except OSError as error:
        if error.errno not in FULL:
            raise


def sync_folder(path: Path) -> None:
    """Returns when the names in the folder are on disk: `sync` covers only the bytes of a file."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, unless they exist, so that a power failure loses none with the files in it."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def create_private(path: Path, content: bytes) -> None:
    """Creates a file that only its owner can read, unless there is one. It is linked into place whole, so that
    processes that start at the same time use one content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            sync(file)
        with suppress(FileExistsError):  # another process was first: its file is used
            os.link(own, path)
    finally:
        own.unlink(missing_ok=True)


@contextmanager
def undone() -> Iterator[list[Path]]:
    """A list of files to remove if the block fails, so that they can be created again."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in made:
            with suppress(OSError):  # the file stays, and is not written again: another attempt uses another name
                path.unlink()
        raise
