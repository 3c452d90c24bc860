"""Uploads into the spool: payloads of batches, cut into chunks while they stream, and data of environments."""

import errno
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from time import monotonic
from typing import IO

from redis.exceptions import RedisError

from gradebox.limits import LINE_BYTES
from storage.batch_plan import Wanted, lane_of, line_ms_of
from storage.errors import Refused
from storage.spool.chunks import (
    ASKING_CHUNK_LINES,
    ASKING_GROUP_CHUNK_LINES,
    BATCH_BYTES,
    BATCH_LINES,
    CHUNK_LINES,
    FAST_CHUNK_LINES,
    FAST_LINE_MS,
    GROUP_CHUNK_LINES,
    Chunk,
    Cutter,
)
from storage.spool.orphan_files import UPLOAD_S
from storage.store import Store

_RENEW_S = 300.0
_CHECK_BYTES = 1024 * 1024


class SpoolUpload:
    """The upload of one file. It is finished and then accepted, or its file is removed.

    A finished file stays: even if the reply of Redis is lost, the upload may have been accepted.

    Attributes:
        id: the name of the file.
        size: the number of bytes received.
    """

    def __init__(self, store: Store, project: str, writing: Callable[[str], AbstractContextManager[IO[bytes]]]) -> None:
        """`writing` is the method of the spool that opens the file."""
        self._project = project
        self._counted = 0  # bytes of it that the backlog counts
        self.id = store.orphan_files.begin()
        self.size = 0
        self._store = store
        self._renewed = self._held = monotonic()  # when it was tried last, and when Redis confirmed it last
        self._unchecked = 0
        self._finished = False
        self._open = ExitStack()
        self._file = self._open.enter_context(writing(self.id))

    def write(self, *pieces: bytes | bytearray) -> None:
        """Appends bytes.

        Raises:
            QuotaExceeded: the project's uploads in progress exceed its quota.
            OSError: the spool is not writable.
        """
        self._stay_alive()
        if self._unchecked >= _CHECK_BYTES:
            self._unchecked = 0
            self._store.spool.check_room()
            self._store.spool.push(self._file)
            self._count()
        for piece in pieces:
            self._file.write(piece)
            self._unchecked += len(piece)
            self.size += len(piece)

    def _count(self) -> None:
        """Counts the new bytes. Raises QuotaExceeded if the project's uploads in progress exceed its quota."""
        more, self._counted = self.size - self._counted, self.size
        self._store.backlog.count_upload(self._project, more)

    def _forget(self) -> None:
        self._store.backlog.count_upload(self._project, -self._counted)
        self._counted = 0

    def _stay_alive(self) -> None:
        if monotonic() - self._renewed > _RENEW_S:
            self._renewed = monotonic()
            with suppress(RedisError):  # renewed again later, at the latest in `close`
                if self._store.orphan_files.renew(self.id):
                    self._held = self._renewed

    def close(self) -> None:
        """Finishes the upload: its file is on disk and stays.

        Raises:
            Refused: no bytes arrived for so long that the upload was removed.
            OSError: Redis restarted without the latest data and does not know the upload, which must be repeated.
        """
        self._open.close()
        if not self._store.orphan_files.renew(self.id):
            if monotonic() - self._held < UPLOAD_S:
                raise OSError(errno.EIO, f"Redis has lost the upload {self.id}: it must be sent again")
            raise Refused("the upload made no progress for an hour: send it faster, or in several batches")
        self._finished = True
        self._forget()

    def abandon(self) -> None:
        """Removes the file, unless the upload is finished."""
        if self._finished:
            return
        self._forget()
        with suppress(OSError), self._open:  # without an error, the last bytes are sent, and an object is completed
            raise OSError(errno.ECANCELED, "the upload is abandoned")
        with suppress(OSError, RedisError):  # the janitor removes it later; the caller has an error to tell
            self._store.spool.remove(self.id)
            self._store.orphan_files.swept(self.id)


class DataUpload(SpoolUpload):
    """The upload of data for an environment."""

    def __init__(self, store: Store, project: str) -> None:
        store.environment_data.check_room(project)
        super().__init__(store, project, store.spool.writing_data)
        self._hash = hashlib.sha256()

    def write(self, *pieces: bytes | bytearray) -> None:
        """Appends bytes, as in the base class."""
        for piece in pieces:
            self._hash.update(piece)
        super().write(*pieces)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes received, in hexadecimal."""
        return self._hash.hexdigest()


class Upload(SpoolUpload):
    """The upload of the payload of a batch. Its id is that of the future batch."""

    def __init__(
        self,
        store: Store,
        project: str = "",
        wanted: Sequence[Wanted] = (),
        line_bytes: int = LINE_BYTES,
        max_lines: int = BATCH_LINES,
        max_bytes: int = BATCH_BYTES,
    ) -> None:
        """`wanted` are the graders that are to score it, which decide the size of its chunks."""
        super().__init__(store, project, store.spool.writing_payload)
        line_ms = line_ms_of(wanted)
        groups = any(one.version.groups for one in wanted)
        if lane_of(wanted) == "asking":
            chunk_lines = ASKING_GROUP_CHUNK_LINES if groups else ASKING_CHUNK_LINES
        elif groups:
            chunk_lines = GROUP_CHUNK_LINES
        else:
            chunk_lines = FAST_CHUNK_LINES if 0 < line_ms <= FAST_LINE_MS else CHUNK_LINES
        self._cutter = Cutter(max_lines, max_bytes, line_bytes=line_bytes, chunk_lines=chunk_lines, line_ms=line_ms)

    def write(self, *pieces: bytes | bytearray) -> None:
        """Appends bytes, as in the base class.

        Raises:
            TooLarge: a line, the number of lines or the whole payload exceeds its limit.
        """
        for piece in pieces:
            self._cutter.feed(piece)
        super().write(*pieces)

    def finish(self) -> list[Chunk]:
        """Finishes the upload, with the payload on disk. Returns its chunks.

        Raises:
            Refused: the payload has no line, or no bytes arrived for so long that the upload was removed.
        """
        chunks = self._cutter.finish()
        self.close()
        return chunks
