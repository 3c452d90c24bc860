"""Large immutable data: payloads and outcomes, in a folder or an object store given by a URL."""

import errno
import hashlib
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BytesIO
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
_ID = re.compile("[0-9a-f]{20}")
_ATTEMPT = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.jsonl")
_RECORDED = re.compile(r"recorded-([0-9a-f]+)\.jsonl")
_ARCHIVE = re.compile(r"([0-9a-f]{64})\.tar.*")
_TOGETHER_BYTES = 8 * MIB  # of ranges that are requested at once
_OLD_TABLE = "table"  # the name of the tables of earlier releases
_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error: OSError) -> bool:
    """Whether the disk or the disk quota is full."""
    return error.errno in _FULL


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


class Spool:
    """The files of all batches. Every method may raise OSError, in a folder even before the disk is full.

    Payloads leave `reserve` bytes of the disk free, so that accepted batches can be finished. Outcomes leave a quarter
    of that free, so that Redis can continue.
    """

    def __init__(self, url: str, reserve: int = 0) -> None:
        self._reserve = reserve
        store = url.partition("://")[0]
        self._files, self._root = fsspec.core.url_to_fs(url, **_OPTIONS.get(store, {}))
        self._no_credentials, self._foreign = _foreign_errors(store)
        # Files of a folder need fsync; an object store does not lose what it has acknowledged.
        self._is_folder = isinstance(self._files, LocalFileSystem)
        self._expected_mark: str | None = None

    def writing_payload(self, batch_id: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new payload, which is on disk when the block ends."""
        return self._new(self._payload(batch_id))

    def push(self, payload: IO[bytes]) -> None:
        """Starts the transfer of the bytes written so far to the disk, without waiting for it."""
        if self._is_folder:
            disk.push(payload)

    def read_payload(self, batch_id: str, offset: int, length: int) -> bytes:
        """Reads `length` bytes of a payload from `offset`. Raises PayloadLost if they do not exist."""
        (data,) = self.read_ranges([self.payload_range(batch_id, offset, offset + length)])
        return data

    def write_outcomes(self, batch_id: str, files: Mapping[tuple[int, int], bytes]) -> None:
        """Writes the outcomes of units, each by its number and attempt. Returns once all are on disk; an error leaves
        none of them.

        Raises:
            FileExistsError: this attempt has already written. A file that counts is never opened again for writing.
        """
        self._make_folder(f"{self._root}/outcomes/{batch_id}")
        self._check_room(self._reserve // 4)
        paths = [self._outcomes(batch_id, unit, attempt) for unit, attempt in files]
        with self._as_os_errors(), self._writing(*paths) as opened:
            for file, data in zip(opened, files.values(), strict=True):
                file.write(data)

    def open_outcomes(self, batch_id: str, unit: int, attempt: int) -> IO[bytes]:
        """Opens the outcomes of one unit, one per line."""
        path = self._outcomes(batch_id, unit, attempt)
        if self._is_folder:
            return Path(path).open("rb")
        with self._as_os_errors():
            return BytesIO(self._files.cat_file(path))  # one request; to open and read a file takes two

    def writing_recorded(self, batch_id: str, name: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new file of recorded outcomes, which is on disk when the block ends."""
        return self._new(self._recorded(batch_id, name))

    def open_recorded(self, batch_id: str, name: str) -> IO[bytes]:
        """Opens a file of recorded outcomes. Raises FileNotFoundError. Each read of an object is one request."""
        return self._opened(self._recorded(batch_id, name), cache_type="none")

    def remove_recorded(self, batch_id: str, name: str) -> None:
        """Deletes a file of recorded outcomes, if it exists."""
        self._remove(self._recorded(batch_id, name))

    def recorded_files(self, batch_id: str) -> list[str]:
        """The names of all files of recorded outcomes of a batch, including files that are being written."""
        found = map(_RECORDED.fullmatch, self._files_of(batch_id))
        return [name[1] for name in found if name]

    def remove_outcomes(self, batch_id: str, unit: int, attempt: int) -> None:
        """Deletes the outcomes of an attempt that does not count, if they exist."""
        self._remove(self._outcomes(batch_id, unit, attempt))

    def write_table(self, batch_id: str, table: bytes) -> str:
        """Writes the table of an ended batch (its chunks and the attempts that count) atomically. Returns its name,
        which is that of its content: a slow writer cannot replace the table of a later retry.
        """
        name = _table_name(table)
        self._write_whole(self._table(batch_id, name), BytesIO(table))
        return name

    def read_table(self, batch_id: str, name: str) -> bytes:
        """Reads the table that `write_table` wrote. Raises FileNotFoundError, and CutOff if it is not whole."""
        path = self._table(batch_id, name)
        with self._as_os_errors():
            table = cast(bytes, self._files.cat_file(path))
        if name not in (_table_name(table), _OLD_TABLE):
            raise CutOff(errno.EIO, "the table is cut off or changed", path)
        return table

    def tables(self, batch_id: str) -> list[str]:
        """The names of a batch's tables, including partial files of interrupted writes."""
        return [name for name in self._files_of(batch_id) if name.startswith("table")]

    def remove_table(self, batch_id: str, name: str) -> None:
        """Deletes a table, if it exists."""
        self._remove(self._table(batch_id, name))

    def write_index(self, batch_id: str, name: str, content: Readable) -> None:
        """Writes an index of a batch's outcomes atomically. All writers of this name write the same content."""
        self.check_room()
        self._write_whole(self._index(batch_id, name), content)

    def has_index(self, batch_id: str, name: str) -> bool:
        """Whether an index exists."""
        return self._exists(self._index(batch_id, name))

    def indexes(self, batch_id: str) -> list[str]:
        """The names of a batch's indexes, including partial files of interrupted writes."""
        return [name.removeprefix("index-") for name in self._files_of(batch_id) if name.startswith("index-")]

    def remove_index(self, batch_id: str, name: str) -> None:
        """Deletes an index, if it exists."""
        self._remove(self._index(batch_id, name))

    def index_range(self, batch_id: str, name: str, start: int, end: int) -> FileRange:
        """A range of an index."""
        return FileRange(self._index(batch_id, name), start, end)

    def outcomes_range(self, batch_id: str, unit: int, attempt: int, start: int, end: int) -> FileRange:
        """A range of the outcomes of a unit."""
        return FileRange(self._outcomes(batch_id, unit, attempt), start, end)

    def payload_range(self, batch_id: str, start: int, end: int) -> FileRange:
        """A range of a payload."""
        return FileRange(self._payload(batch_id), start, end, batch_id)

    def read_ranges(self, ranges: Iterable[FileRange]) -> Iterator[bytes]:
        """The bytes of each range. Requests several ranges at once from an object store.

        Raises:
            PayloadLost: a payload does not exist, or ends before the range does.
            FileNotFoundError, CutOff: another file does not exist, or ends before the range does.
        """
        if self._is_folder:
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
            found = iter(self._files.cat_ranges(paths, starts, ends, on_error="return") if asked else ())
            return [_whole(one, next(found)) if one.start < one.end else b"" for one in ranges]

    def write_archive(self, sha256: str, archive: Readable) -> None:
        """Writes the content of an environment atomically. All writers write the same content."""
        self._make_folder(self._root)
        self.check_room()
        self._write_whole(self._archive(sha256), archive)

    def _write_whole(self, path: str, content: Readable) -> None:
        """Writes a file that becomes visible only once all of it is on disk."""
        self._make_folder(str(Path(path).parent))
        new = f"{path}.{secrets.token_hex(4)}" if self._is_folder else path
        with self._as_os_errors(), self._writing(new) as (file,):
            shutil.copyfileobj(content, file, MIB)
        if self._is_folder:
            Path(new).replace(path)
            disk.sync_folder(Path(path).parent)

    def writing_data(self, upload_id: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new file of data for environments, which is on disk when the block ends."""
        return self._new(self._data(upload_id))

    def has_data(self, upload_id: str) -> bool:
        """Whether a file of data exists."""
        return self._exists(self._data(upload_id))

    def open_data(self, upload_id: str) -> IO[bytes]:
        """Opens a file of data. Raises FileNotFoundError."""
        return self._opened(self._data(upload_id))

    def open_archive(self, sha256: str) -> IO[bytes]:
        """Opens the content of an environment. Raises FileNotFoundError."""
        return self._opened(self._archive(sha256))

    def has_archive(self, sha256: str) -> bool:
        """Whether the content of an environment exists."""
        return self._exists(self._archive(sha256))

    def archives(self) -> set[str]:
        """The SHA-256 of each stored content of an environment."""
        found = (_ARCHIVE.fullmatch(Path(path).name) for path in self._listed("environments"))
        return {name[1] for name in found if name}

    def remove_archive(self, sha256: str) -> None:
        """Deletes the content of an environment, and partial files of interrupted writes."""
        for path in self._listed("environments"):
            if Path(path).name.startswith(f"{sha256}."):
                self._remove(path)

    def remove(self, batch_id: str) -> None:
        """Deletes all files of a batch or another upload, if there are any."""
        for path in (self._payload(batch_id), self._data(batch_id)):
            self._remove(path)
        with suppress(FileNotFoundError), self._as_os_errors():
            self._files.rm(f"{self._root}/outcomes/{batch_id}", recursive=True)

    def is_there(self, batch_id: str) -> bool:
        """Whether the spool itself is there: it has the payload of this batch, or a mark. A network file system that is
        not mounted looks like an empty folder.
        """
        return self._exists(self._payload(batch_id)) or self.mark() is not None

    def batches(self) -> set[str]:
        """The ids of all batches and other uploads that have files."""
        folders = ("payloads", "outcomes", "environments")
        found = (Path(path).stem for folder in folders for path in self._listed(folder))
        return {name for name in found if _ID.fullmatch(name)}

    def outcome_files(self, batch_id: str) -> list[tuple[int, int]]:
        """The unit and the attempt of each file of outcomes of a batch."""
        found = map(_ATTEMPT.fullmatch, self._files_of(batch_id))
        return [(int(name[1]), int(name[2])) for name in found if name]

    def mark(self) -> str | None:
        """The mark of the Redis that the spool belongs to; None if it has no mark."""
        with suppress(FileNotFoundError), self._as_os_errors():
            return str(self._files.cat_file(self._owner)[:64].decode("ascii", "replace").strip())
        return None

    def write_mark(self, mark: str) -> None:
        """Writes the mark of the Redis that the spool belongs to."""
        self._write_whole(self._owner, BytesIO(mark.encode()))

    def expect_mark(self, mark: str) -> None:
        """Refuses to write from now on while the spool has no mark, because it may not be mounted."""
        self._expected_mark = mark

    def _check_mark(self) -> None:
        if self._expected_mark is not None and not self._exists(self._owner):
            advice = f"mount it, or, if it is the right one, write {self._expected_mark} into that file"
            raise OSError(
                errno.ENODEV, f"the spool has no file `owner`, so it may not be mounted: {advice}", self._root
            )

    def _files_of(self, batch_id: str) -> list[str]:
        """The names of the files of a batch, except its payload."""
        return [Path(path).name for path in self._listed(f"outcomes/{batch_id}")]

    def _listed(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError), self._as_os_errors():
            return [str(path) for path in self._files.ls(f"{self._root}/{folder}", detail=False)]
        return []

    def check(self) -> None:
        """Raises OSError if the spool is not writable."""
        self._check_mark()
        path = f"{self._root}/probe-{secrets.token_hex(4)}"
        self._make_folder(self._root)
        with self._as_os_errors():
            self._files.pipe_file(path, b"")
            self._files.rm_file(path)

    def trouble(self) -> OSError | None:
        """Why the spool is not writable now; None if it is."""
        try:
            self.check()
        except OSError as error:
            return error
        return None

    def check_usable(self) -> None:
        """Raises SpoolUnusable if the spool is not writable for a permanent reason: missing or refused credentials, or
        a missing bucket. Ignores errors that may be temporary.
        """
        try:
            self.check()
        except FileNotFoundError as error:
            advice = "make the bucket, or correct GRADEBOX_SPOOL_URL"
            raise SpoolUnusable(f"there is no {self._root}: {advice} ({error})") from error
        except PermissionError as error:
            advice = "give credentials that may write there, or correct GRADEBOX_SPOOL_URL"
            raise SpoolUnusable(f"{self._root} refuses it: {advice} ({error})") from error
        except OSError:  # `/readyz` reports it while it lasts
            return

    def check_room(self) -> None:
        """Raises OSError if there is no room for payloads."""
        self._check_room(self._reserve)

    def half_of_disk(self) -> int | None:
        """Half the size of the disk in bytes; None for an object store."""
        return shutil.disk_usage(self._folder_there()).total // 2 if self._is_folder else None

    def free_bytes(self) -> int | None:
        """The free bytes of the disk; None for an object store."""
        return shutil.disk_usage(self._folder_there()).free if self._is_folder else None

    def _folder_there(self) -> Path:
        """The folder of the spool, or its nearest ancestor that exists."""
        folder = Path(self._root)
        while not folder.exists():
            folder = folder.parent
        return folder

    def _check_room(self, least: int) -> None:
        if self._is_folder and least and (free := shutil.disk_usage(self._root).free) < least:
            raise OSError(errno.ENOSPC, f"{free} bytes are free, and {least} must stay free", self._root)

    @property
    def _owner(self) -> str:
        return f"{self._root}/owner"

    def _payload(self, batch_id: str) -> str:
        return f"{self._root}/payloads/{batch_id}.jsonl"

    def _outcomes(self, batch_id: str, unit: int, attempt: int) -> str:
        return f"{self._root}/outcomes/{batch_id}/{unit}-{attempt}.jsonl"

    def _table(self, batch_id: str, name: str) -> str:
        return f"{self._root}/outcomes/{batch_id}/{name}"

    def _index(self, batch_id: str, name: str) -> str:
        return f"{self._root}/outcomes/{batch_id}/index-{name}"

    def _recorded(self, batch_id: str, name: str) -> str:
        return f"{self._root}/outcomes/{batch_id}/recorded-{name}.jsonl"

    def _archive(self, sha256: str) -> str:
        return f"{self._root}/environments/{sha256}.tar"

    def _data(self, upload_id: str) -> str:
        return f"{self._root}/environments/{upload_id}.zip"

    def _make_folder(self, path: str) -> None:
        """Creates a folder. Does nothing in an object store: it has no folders, and a missing bucket is an error.

        Raises:
            OSError: the spool is not mounted, or not writable.
        """
        if self._is_folder:
            self._check_mark()
            disk.make_folder(Path(path))

    def _exists(self, path: str) -> bool:
        with self._as_os_errors():
            return bool(self._files.exists(path))

    def _remove(self, path: str) -> None:
        """Deletes a file, if it exists."""
        with suppress(FileNotFoundError), self._as_os_errors():
            self._files.rm_file(path)

    # Files of a folder are opened without fsspec, which would take as long as writing the outcomes of a chunk takes.

    def _opened(self, path: str, cache_type: str | None = None) -> IO[bytes]:
        with self._as_os_errors():
            if self._is_folder:
                return Path(path).open("rb")
            return cast(IO[bytes], self._files.open(path, "rb", cache_type=cache_type))

    @contextmanager
    def _new(self, path: str) -> Iterator[IO[bytes]]:
        """Opens a new file, which is on disk when the block ends."""
        self._make_folder(str(Path(path).parent))
        self.check_room()
        with self._as_os_errors(), self._writing(path) as (file,):
            yield file

    @contextmanager
    def _uploading(self, path: str) -> Iterator[IO[bytes]]:
        """Opens a new object. If the block raises, discards it: closing it would store the bytes written so far."""
        with self._files.open(path, "wb") as file:
            try:
                yield file
            except BaseException:
                file.forced = True  # makes close() write nothing more
                file.discard()
                raise

    @contextmanager
    def _as_os_errors(self) -> Iterator[None]:
        try:
            yield
        except self._no_credentials as error:
            raise PermissionError(errno.EACCES, f"the spool refuses it: {error}", self._root) from error
        except self._foreign as error:
            raise OSError(errno.EIO, f"the spool does not answer: {error}", self._root) from error

    @contextmanager
    def _writing(self, *paths: str) -> Iterator[list[IO[bytes]]]:
        """Opens new files of one folder. Starts writing all of them before it waits for the first, so that the disk
        writes them together.
        """
        with ExitStack() as opened:
            if self._is_folder:
                made = opened.enter_context(disk.undone())
            files: list[IO[bytes]] = []
            for path in paths:
                if self._is_folder:
                    files.append(opened.enter_context(Path(path).open("xb")))
                    made.append(Path(path))
                else:
                    files.append(opened.enter_context(self._uploading(path)))
            yield files
            if self._is_folder:
                for file in files:
                    disk.push(file)
                for file in files:
                    disk.sync(file)
                disk.sync_folder(Path(paths[0]).parent)


def _table_name(table: bytes) -> str:
    return f"table-{hashlib.sha256(table).hexdigest()[:32]}"


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
    elif isinstance(found, OSError) and found.errno == errno.EINVAL:
        what = f"ends in the spool before {one.start} bytes"
    else:
        raise found
    if one.payload_of is None:
        raise found
    raise PayloadLost(f"the payload of batch {one.payload_of} {what}") from found


_Errors = tuple[type[Exception], ...]


def _foreign_errors(store: str) -> tuple[_Errors, _Errors]:
    """The exceptions of an object store's library other than OSError: for missing credentials, and for all else."""
    if store not in _OPTIONS:
        return (), ()
    # botocore comes with s3fs, which few deployments need.
    from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError

    return (NoCredentialsError, PartialCredentialsError), (BotoCoreError,)
