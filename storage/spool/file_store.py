"""Files in a folder or an object store, given by a URL. They are written whole, and then only read."""

import errno
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, Protocol, cast

import fsspec
from fsspec.implementations.local import LocalFileSystem

from storage.errors import CutOff, PayloadLost, SpoolUnusable
from storage.spool import disk

MIB = 1024 * 1024
# No cached listings, because other processes change the files. An upload holds one block in memory.
_S3_OPTIONS = {"use_listings_cache": False, "skip_instance_cache": True, "default_block_size": 8 * MIB}
_OPTIONS = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}
_S3_ROUNDS = 2  # of the tries of the AWS libraries; s3fs nests its rounds, so its five would be 125 tries of a read
# Of S3, MinIO and Ceph, which send them with various statuses.
_FULL_CODES = ("QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull")
_TOGETHER_BYTES = 8 * MIB  # of ranges that are requested at once


class Readable(Protocol):
    """An object that is read sequentially."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; empty at the end."""


class FileRange(NamedTuple):
    """Bytes of a file, from `start` up to `end`. If the file is a payload, `payload_of` is the id of its batch."""

    path: str
    start: int
    end: int
    payload_of: str | None = None


class FileStore:
    """The files below one URL. Every method may raise OSError; other errors of an object store's library become one.

    Attributes:
        system: the file system of fsspec.
        root: the path of the folder, or of the prefix in a bucket.
        is_folder: whether it is a folder. Its files need fsync; an object store does not lose what it has acknowledged.
    """

    def __init__(self, url: str) -> None:
        """Raises SpoolUnusable if there is no file system for this URL."""
        store = url.partition("://")[0]
        try:
            self.system, self.root = fsspec.core.url_to_fs(url, **_OPTIONS.get(store, {}))
        except (ValueError, ImportError) as error:
            raise SpoolUnusable(f"GRADEBOX_SPOOL_URL is invalid: {error}") from error
        self.is_folder = isinstance(self.system, LocalFileSystem)
        self._no_credentials, self._foreign = _foreign_errors(store)
        if store in _OPTIONS:
            self.system.retries = _S3_ROUNDS

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        with self._as_os_errors():
            return bool(self.system.exists(path))

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder; none if it does not exist."""
        with suppress(FileNotFoundError), self._as_os_errors():
            return [Path(path).name for path in self.system.ls(folder, detail=False)]
        return []

    def read(self, path: str) -> bytes:
        """A whole file, in one request: to open and read it takes two."""
        with self._as_os_errors():
            return Path(path).read_bytes() if self.is_folder else cast(bytes, self.system.cat_file(path))

    # Files of a folder are opened without fsspec, which would take as long as writing the outcomes of a chunk takes.

    def open(self, path: str, cache_type: str | None = None) -> IO[bytes]:
        """Opens a file for reading. Without a `cache_type` an object is read in blocks."""
        with self._as_os_errors():
            if self.is_folder:
                return Path(path).open("rb")
            return self._guarded(self.system.open(path, "rb", cache_type=cache_type))

    def read_ranges(self, ranges: Iterable[FileRange]) -> Iterator[bytes]:
        """The bytes of each range. Requests several ranges at once from an object store.

        Raises:
            PayloadLost: a payload does not exist, or ends before the range does.
            FileNotFoundError, CutOff: another file does not exist, or ends before the range does.
        """
        if self.is_folder:
            yield from (_whole(one, _read(one)) for one in ranges)
            return
        together: list[FileRange] = []
        for one in ranges:
            together.append(one)
            if sum(each.end - each.start for each in together) >= _TOGETHER_BYTES:
                yield from self._read_at_once(together)
                together = []
        yield from self._read_at_once(together)

    def _read_at_once(self, ranges: list[FileRange]) -> list[bytes]:
        asked = [one for one in ranges if one.start < one.end]  # S3 cannot express an empty range
        paths, starts, ends = ([one[number] for one in asked] for number in range(3))
        with self._as_os_errors():
            found = iter(self.system.cat_ranges(paths, starts, ends, on_error="return") if asked else ())
            return [_whole(one, next(found)) if one.start < one.end else b"" for one in ranges]

    def make_folder(self, path: str) -> None:
        """Creates a folder. An object store has none, and a missing bucket is an error."""
        if self.is_folder:
            disk.make_folder(Path(path))

    @contextmanager
    def writing(self, *paths: str) -> Iterator[list[IO[bytes]]]:
        """Opens new files of one folder, which are on disk when the block ends. Starts writing all of them before it
        waits for the first, so that the disk writes them together. An error leaves none of them.

        Raises FileExistsError if one exists in a folder; an object is replaced.
        """
        with self._as_os_errors(), ExitStack() as opened:
            if self.is_folder:
                made = opened.enter_context(disk.undone())
            files: list[IO[bytes]] = []
            for path in paths:
                if self.is_folder:
                    files.append(opened.enter_context(Path(path).open("xb")))
                    made.append(Path(path))
                else:
                    files.append(opened.enter_context(self._uploading(path)))
            yield files
            if self.is_folder:
                for file in files:
                    disk.push(file)
                for file in files:
                    disk.sync(file)
                disk.sync_folder(Path(paths[0]).parent)

    def missing(self, objects: Mapping[str, bytes]) -> dict[str, bytes]:
        """Those of these objects that do not exist. One with this content is there if the answer to its write was lost.

        Raises FileExistsError if one has other content.
        """
        with self._as_os_errors():
            # As ranges: s3fs asks for the size of whole objects first.
            found = self.system.cat_ranges([*objects], 0, None, on_error="return")
            missing: dict[str, bytes] = {}
            for (path, content), there in zip(objects.items(), found, strict=True):
                if isinstance(there, FileNotFoundError):
                    missing[path] = content
                elif isinstance(there, BaseException):
                    raise there
                elif there != content:
                    raise FileExistsError(errno.EEXIST, "the object exists with other content", path)
        return missing

    @contextmanager
    def _uploading(self, path: str) -> Iterator[IO[bytes]]:
        """Opens a new object. If the block or the end of it raises, discards what was sent: closing would store it, or
        leave its parts in the bucket.
        """
        with self.system.open(path, "wb") as file:
            try:
                yield self._guarded(file)
                file.close()
            except BaseException:
                file.forced = True  # makes close() write nothing more
                file.discard()
                raise

    def write_whole(self, path: str, content: Readable) -> None:
        """Writes a file that becomes visible only once all of it is on disk. It may exist."""
        new = f"{path}.{secrets.token_hex(4)}" if self.is_folder else path
        with self.writing(new) as (file,):
            shutil.copyfileobj(content, file, MIB)
        if self.is_folder:
            Path(new).replace(path)
            disk.sync_folder(Path(path).parent)

    def remove(self, path: str) -> None:
        """Deletes a file, if it exists."""
        with suppress(FileNotFoundError), self._as_os_errors():
            self.system.rm_file(path)

    def remove_folder(self, path: str) -> None:
        """Deletes a folder with all that is in it, if it exists. Raises OSError if some of it is left."""
        with suppress(FileNotFoundError), self._as_os_errors():
            self.system.rm(path, recursive=True)
        # S3 answers a deletion of many objects with success, and s3fs ignores which of them it names as failed. In a
        # folder, a file that another process has just removed ends the deletion before Python 3.13.
        if left := self.names(path):
            raise OSError(errno.EIO, f"{len(left)} of the files were not deleted", path)

    def probe(self) -> None:
        """Writes a file and removes it. In a folder it has a byte: a disk that takes no bytes may still take names."""
        path = f"{self.root}/probe-{secrets.token_hex(4)}"
        with self._as_os_errors():
            self.system.pipe_file(path, b"")
            try:
                if self.is_folder:
                    disk.check_writes(Path(path))
            finally:
                self.system.rm_file(path)

    def half_of_disk(self) -> int | None:
        """Half the size of the disk in bytes; None for an object store."""
        return shutil.disk_usage(self._folder_there()).total // 2 if self.is_folder else None

    def free_bytes(self) -> int | None:
        """The free bytes of the disk; None for an object store."""
        return shutil.disk_usage(self._folder_there()).free if self.is_folder else None

    def check_room(self, least: int) -> None:
        """Raises OSError if fewer bytes of the disk are free. The folder has to exist."""
        if self.is_folder and least and (free := shutil.disk_usage(self.root).free) < least:
            raise OSError(errno.ENOSPC, f"{free} bytes are free, and {least} must stay free", self.root)

    def _folder_there(self) -> Path:
        """The folder, or its nearest ancestor that exists."""
        folder = Path(self.root)
        while not folder.exists():
            folder = folder.parent
        return folder

    def _guarded(self, file: IO[bytes]) -> IO[bytes]:
        """The file of an object, whose reads and writes are requests that may fail too."""
        if self._foreign:
            for name in ("read", "write"):
                setattr(file, name, self._as_os_errors()(getattr(file, name)))
        return file

    @contextmanager
    def _as_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if _code_of(error) in _FULL_CODES:
                raise OSError(errno.ENOSPC, f"the object store is full: {error}", self.root) from error
            raise
        except self._no_credentials as error:
            raise PermissionError(errno.EACCES, f"the spool refuses it: {error}", self.root) from error
        except self._foreign as error:
            raise OSError(errno.EIO, f"the spool does not answer: {error}", self.root) from error


def _read(one: FileRange) -> bytes | OSError:
    try:
        with Path(one.path).open("rb") as file:
            file.seek(one.start)
            return file.read(one.end - one.start)
    except OSError as error:
        return error


def _whole(one: FileRange, found: bytes | BaseException) -> bytes:
    """Returns the bytes of a range. Raises as `read_ranges` does if they are not complete."""
    if isinstance(found, bytes) and len(found) == one.end - one.start:
        return found
    if isinstance(found, bytes):
        what = f"is cut off in the spool at {one.start + len(found)} bytes"
        found = CutOff(errno.EIO, f"the file {what}", one.path)
    elif isinstance(found, FileNotFoundError):
        what = "is gone from the spool"
    elif _code_of(found) in ("InvalidRange", "416"):
        what = f"ends in the spool before {one.start} bytes"
    else:
        raise found
    if one.payload_of is None:
        raise found
    raise PayloadLost(f"the payload of batch {one.payload_of} {what}") from found


def _code_of(error: BaseException) -> str | None:
    """The code in an object store's answer from which s3fs made this error. Errnos stand for many codes."""
    answer = getattr(error.__cause__, "response", None)
    return answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None


_Errors = tuple[type[Exception], ...]


def _foreign_errors(store: str) -> tuple[_Errors, _Errors]:
    """The exceptions of an object store's library other than OSError: for missing credentials, and for all else."""
    if store not in _OPTIONS:
        return (), ()
    # botocore comes with s3fs, which few deployments need.
    from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError
    from s3fs.core import S3_RETRYABLE_ERRORS  # raised as they are after the last try: a body that ended early, for one

    return (NoCredentialsError, PartialCredentialsError), (BotoCoreError, *S3_RETRYABLE_ERRORS)
