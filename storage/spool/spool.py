"""The files of batches and environments: large immutable data in a folder or an object store."""

import errno
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO

from storage.errors import AttemptWritten, CutOff, SpoolUnusable
from storage.spool import disk
from storage.spool.file_store import FileRange, FileStore, Readable

_ID = re.compile("[0-9a-f]{20}")
_ATTEMPT = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.jsonl")
_RECORDED = re.compile(r"recorded-([0-9a-f]+)\.jsonl")
_ARCHIVE = re.compile(r"([0-9a-f]{64})\.tar.*")
_OLD_TABLE = "table"  # the name of the tables of earlier releases


def is_full(error: OSError) -> bool:
    """Whether the disk or the disk quota is full."""
    return error.errno in disk.FULL


class Spool:
    """The files of all batches. Every method may raise OSError, in a folder even before the disk is full.

    Payloads leave `reserve` bytes of the disk free, so that accepted batches can be finished. Outcomes leave a quarter
    of that free, so that Redis can continue.
    """

    def __init__(self, url: str, reserve: int = 0) -> None:
        self._reserve = reserve
        self.files = FileStore(url)
        self._root = self.files.root
        self._expected_mark: str | None = None

    def writing_payload(self, batch_id: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new payload, which is on disk when the block ends."""
        return self._new(self._payload(batch_id))

    def push(self, payload: IO[bytes]) -> None:
        """Starts the transfer of the bytes written so far to the disk, without waiting for it."""
        if self.files.is_folder:
            disk.push(payload)

    def read_payload(self, batch_id: str, offset: int, length: int) -> bytes:
        """Reads `length` bytes of a payload from `offset`. Raises PayloadLost if they do not exist."""
        (data,) = self.files.read_ranges([self.payload_range(batch_id, offset, offset + length)])
        return data

    def write_outcomes(self, batch_id: str, files: Mapping[tuple[int, int], bytes]) -> None:
        """Writes the outcomes of units, each by its number and attempt. Returns once all are on disk; an error leaves
        none of them.

        Raises:
            AttemptWritten: one of these attempts has already written. A file that counts is never replaced.
        """
        self._make_folder(f"{self._root}/outcomes/{batch_id}")
        self.files.check_room(self._reserve // 4)
        new = {self._outcomes(batch_id, unit, attempt): data for (unit, attempt), data in files.items()}
        try:
            if not self.files.is_folder:  # not every object store can refuse to replace an object
                new = self.files.missing(new)
            with self.files.writing(*new) as opened:
                for file, data in zip(opened, new.values(), strict=True):
                    file.write(data)
        except FileExistsError as error:
            raise AttemptWritten(errno.EEXIST, "this attempt was written before", error.filename) from error

    def open_outcomes(self, batch_id: str, unit: int, attempt: int) -> IO[bytes]:
        """Opens the outcomes of one unit, one per line."""
        path = self._outcomes(batch_id, unit, attempt)
        return self.files.open(path) if self.files.is_folder else BytesIO(self.files.read(path))

    def writing_recorded(self, batch_id: str, name: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new file of recorded outcomes, which is on disk when the block ends."""
        return self._new(self._recorded(batch_id, name))

    def open_recorded(self, batch_id: str, name: str) -> IO[bytes]:
        """Opens a file of recorded outcomes. Raises FileNotFoundError. Each read of an object is one request."""
        return self.files.open(self._recorded(batch_id, name), cache_type="none")

    def remove_recorded(self, batch_id: str, name: str) -> None:
        """Deletes a file of recorded outcomes, if it exists."""
        self.files.remove(self._recorded(batch_id, name))

    def recorded_files(self, batch_id: str) -> list[str]:
        """The names of all files of recorded outcomes of a batch, including files that are being written."""
        found = map(_RECORDED.fullmatch, self._files_of(batch_id))
        return [name[1] for name in found if name]

    def remove_outcomes(self, batch_id: str, unit: int, attempt: int) -> None:
        """Deletes the outcomes of an attempt that does not count, if they exist."""
        self.files.remove(self._outcomes(batch_id, unit, attempt))

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
        table = self.files.read(path)
        if name not in (_table_name(table), _OLD_TABLE):
            raise CutOff(errno.EIO, "the table is cut off or changed", path)
        return table

    def tables(self, batch_id: str) -> list[str]:
        """The names of a batch's tables, including partial files of interrupted writes."""
        return [name for name in self._files_of(batch_id) if name.startswith("table")]

    def remove_table(self, batch_id: str, name: str) -> None:
        """Deletes a table, if it exists."""
        self.files.remove(self._table(batch_id, name))

    def write_index(self, batch_id: str, name: str, content: Readable) -> None:
        """Writes an index of a batch's outcomes atomically. All writers of this name write the same content."""
        self.check_room()
        self._write_whole(self._index(batch_id, name), content)

    def indexes(self, batch_id: str) -> list[str]:
        """The names of a batch's indexes, including partial files of interrupted writes."""
        return [name.removeprefix("index-") for name in self._files_of(batch_id) if name.startswith("index-")]

    def remove_index(self, batch_id: str, name: str) -> None:
        """Deletes an index, if it exists."""
        self.files.remove(self._index(batch_id, name))

    def index_range(self, batch_id: str, name: str, start: int, end: int) -> FileRange:
        """A range of an index."""
        return FileRange(self._index(batch_id, name), start, end)

    def outcomes_range(self, batch_id: str, unit: int, attempt: int, start: int, end: int) -> FileRange:
        """A range of the outcomes of a unit."""
        return FileRange(self._outcomes(batch_id, unit, attempt), start, end)

    def payload_range(self, batch_id: str, start: int, end: int) -> FileRange:
        """A range of a payload."""
        return FileRange(self._payload(batch_id), start, end, batch_id)

    def write_archive(self, sha256: str, archive: Readable) -> None:
        """Writes the content of an environment atomically. All writers write the same content."""
        self._make_folder(self._root)
        self.check_room()
        self._write_whole(self._archive(sha256), archive)

    def writing_data(self, upload_id: str) -> AbstractContextManager[IO[bytes]]:
        """Opens a new file of data for environments, which is on disk when the block ends."""
        return self._new(self._data(upload_id))

    def has_data(self, upload_id: str) -> bool:
        """Whether a file of data exists."""
        return self.files.exists(self._data(upload_id))

    def open_data(self, upload_id: str) -> IO[bytes]:
        """Opens a file of data. Raises FileNotFoundError."""
        return self.files.open(self._data(upload_id))

    def open_archive(self, sha256: str) -> IO[bytes]:
        """Opens the content of an environment.

        Raises:
            FileNotFoundError: the spool does not have it.
            OSError: it cannot be read, or the spool may not be mounted.
        """
        try:
            return self.files.open(self._archive(sha256))
        except FileNotFoundError:
            self._check_mark()
            raise

    def has_archive(self, sha256: str) -> bool:
        """Whether the content of an environment exists."""
        return self.files.exists(self._archive(sha256))

    def archives(self) -> set[str]:
        """The SHA-256 of each stored content of an environment."""
        found = map(_ARCHIVE.fullmatch, self._names("environments"))
        return {name[1] for name in found if name}

    def remove_unfinished_archives(self, contents: Collection[str]) -> None:
        """Deletes the partial files that killed writers left of these environments. No process may be writing them."""
        for name in self._names("environments"):
            sha256, is_partial, _ = name.partition(".tar.")
            if is_partial and sha256 in contents:
                self.files.remove(f"{self._root}/environments/{name}")

    def remove_archive(self, sha256: str) -> None:
        """Deletes the content of an environment, and partial files of interrupted writes."""
        for name in self._names("environments"):
            if name.startswith(f"{sha256}."):
                self.files.remove(f"{self._root}/environments/{name}")

    def remove(self, batch_id: str) -> None:
        """Deletes all files of a batch or another upload, if there are any."""
        for path in (self._payload(batch_id), self._data(batch_id)):
            self.files.remove(path)
        self.files.remove_folder(f"{self._root}/outcomes/{batch_id}")

    def is_there(self, batch_id: str) -> bool:
        """Whether the spool itself is there: it has the payload of this batch, or a mark. A network file system that is
        not mounted looks like an empty folder.
        """
        return self.files.exists(self._payload(batch_id)) or self.mark() is not None

    def batches(self) -> set[str]:
        """The ids of all batches and other uploads that have files."""
        folders = ("payloads", "outcomes", "environments")
        found = (Path(name).stem for folder in folders for name in self._names(folder))
        return {name for name in found if _ID.fullmatch(name)}

    def outcome_files(self, batch_id: str) -> list[tuple[int, int]]:
        """The unit and the attempt of each file of outcomes of a batch."""
        found = map(_ATTEMPT.fullmatch, self._files_of(batch_id))
        return [(int(name[1]), int(name[2])) for name in found if name]

    def mark(self) -> str | None:
        """The mark of the Redis that the spool belongs to; None if it has no mark."""
        with suppress(FileNotFoundError):
            return self.files.read(self._owner)[:64].decode("ascii", "replace").strip()
        return None

    def write_mark(self, mark: str) -> None:
        """Writes the mark of the Redis that the spool belongs to."""
        self._write_whole(self._owner, BytesIO(mark.encode()))

    def expect_mark(self, mark: str) -> None:
        """Refuses to write from now on while the spool has no mark, because it may not be mounted."""
        self._expected_mark = mark

    def _check_mark(self) -> None:
        if self._expected_mark is not None and not self.files.exists(self._owner):
            advice = f"mount it, or, if it is the right one, write {self._expected_mark} into that file"
            raise OSError(
                errno.ENODEV, f"the spool has no file `owner`, so it may not be mounted: {advice}", self._root
            )

    def _files_of(self, batch_id: str) -> list[str]:
        """The names of the files of a batch, except its payload."""
        return self._names(f"outcomes/{batch_id}")

    def _names(self, folder: str) -> list[str]:
        return self.files.names(f"{self._root}/{folder}")

    def check(self) -> None:
        """Raises OSError if the spool is not writable."""
        self._check_mark()
        self._make_folder(self._root)
        self.files.probe()

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
        self.files.check_room(self._reserve)

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

    @contextmanager
    def _new(self, path: str) -> Iterator[IO[bytes]]:
        """Opens a new file, which is on disk when the block ends."""
        self._make_folder(str(Path(path).parent))
        self.check_room()
        with self.files.writing(path) as (file,):
            yield file

    def _write_whole(self, path: str, content: Readable) -> None:
        """Writes a file that becomes visible only once all of it is on disk."""
        self._make_folder(str(Path(path).parent))
        self.files.write_whole(path, content)

    def _make_folder(self, path: str) -> None:
        """Creates a folder. Raises OSError if the spool is not mounted, or not writable."""
        if self.files.is_folder:
            self._check_mark()
        self.files.make_folder(path)


def _table_name(table: bytes) -> str:
    return f"table-{hashlib.sha256(table).hexdigest()[:32]}"
