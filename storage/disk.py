"""How files of a folder come to lie on the disk."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def push(file: IO[bytes]) -> None:
    """Has the kernel begin to write what the file holds, and waits for nothing: a sync then finds little left to do.

    What it begins may fail unheard: the sync tells. Raises OSError where not even the kernel takes the bytes.
    """
    file.flush()
    _sync_file_range(file.fileno(), 0, 0, _SYNC_FILE_RANGE_WRITE)  # from 0 to the end


def sync(file: IO[bytes]) -> None:
    """Returns when the file's bytes are on disk. Raises OSError where they cannot be."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Returns when the names in it are on disk, not only the bytes."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def undone() -> Iterator[list[Path]]:
    """A list of files to be removed where the block does not come to its end: then they can be made again."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in made:
            with suppress(OSError):  # it stays, and is written no more: another attempt has another name
                path.unlink()
        raise
