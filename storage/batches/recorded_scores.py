"""Scores from outside: people or other programs score the threads of a batch, as graders of kind `custom`.

The scores of one grader are a file in the spool, in thread order. Recording more writes a new file and then names it in
the batch's hash, so a reader sees all of an upload or none of it. The previous file is kept for one more change, for
its current readers. If a process ends before it has named its file, the janitor removes the file.
"""

import errno
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from operator import itemgetter
from typing import IO, Any

import msgspec
from redis import Redis

from gradebox.outcome import Outcome
from gradebox.schemas import Summary
from storage import redis_keys
from storage.access.audit import Audit
from storage.access.quotas import Quotas
from storage.connection import script, seconds, text
from storage.errors import Conflict, CutOff, NotFound, OutcomesLost
from storage.spool import lost_files
from storage.spool.blocks import joined, lines_of
from storage.spool.spool import Spool
from storage.statistics.outcome_tally import Tally, merged, tally
from storage.statistics.summary import summary_of
from storage.statistics.unit_tallies import MOST

MOST_GRADERS = 16
_FAR = 100  # lines that are read one after the other; a place beyond is found by bisection
_BLOCK_BYTES = 8 * 1024
_MOST_BLOCK_BYTES = 1024 * 1024
_ROUNDS = 5
_BYTES = "bytes"  # the field with the sum of all files; the other fields are labels, which contain an @
_START = len(b'{"index":')
_decoder = msgspec.json.Decoder(Outcome)
_log = logging.getLogger(__name__)


class _Kept(msgspec.Struct, array_like=True):
    """The scores of one grader: the file, the previous file, the size, and the tally."""

    file: str
    before: str
    size: int
    tally: Tally


class RecordedLines:
    """The recorded outcomes of a batch, read in thread order."""

    def __init__(self, files: Sequence["_RecordedFile"]) -> None:
        self.are_none = not files
        self._files = files

    def of(self, index: int) -> list[bytes]:
        """The lines of one thread. Each call must have a higher index than the one before."""
        return [line for file in self._files if (line := file.line(index)) is not None]


class _RecordedFile:
    """The recorded outcomes of one grader, read in thread order."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._size = size
        self._lines = _numbered(_lines(file))
        self._next: tuple[int, bytes] | None = (-1, b"")  # before the first line

    def line(self, index: int) -> bytes | None:
        """The line of one thread, if it has one. Each call must have a higher index than the one before."""
        if self._next is not None and index - self._next[0] > _FAR:
            self._skip_to(index)
        while self._next is not None and self._next[0] < index:
            self._next = next(self._lines, None)
        return self._next[1] if self._next is not None and self._next[0] == index else None

    def _skip_to(self, index: int) -> None:
        """Continues shortly before the line of a thread, which it finds by bisection."""
        low, high = 0, self._size  # a line begins at `low`; none that begins after `high` is of an earlier thread
        while high - low > _BLOCK_BYTES:
            middle = (low + high) // 2
            start, found = self._line_after(middle)
            if found is not None and found < index:
                low = start
            else:
                high = middle
        self._file.seek(low)
        self._lines = _numbered(_lines(self._file))

    def _line_after(self, place: int) -> tuple[int, int | None]:
        """The start and the index of the first line that begins after a place; no index if there is none."""
        self._file.seek(place)
        lines = _lines(self._file)
        start = place + len(next(lines))
        return start, next((index for index, _ in _numbered(lines)), None)


class RecordedScores:
    """The recorded scores of the batches of all projects."""

    def __init__(self, redis: Redis, spool: Spool, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._spool = spool
        self._audit = audit
        self._quotas = quotas
        self._record = script(redis, "record_scores")

    def record(self, project: str, batch_id: str, scores: Sequence[Outcome]) -> None:
        """Stores scores of one grader, in thread order. They replace earlier scores of the same threads by it.

        Raises:
            NotFound: the batch was deleted.
            Conflict: several callers record scores of this grader at once, or the batch has scores of too many graders.
            QuotaExceeded: the project has reached its quota of bytes.
            OutcomesLost: earlier scores of the grader are gone from the spool.
            OSError: the spool cannot be written.
        """
        label = scores[0].grader
        # Before a file exists that may be abandoned.
        self._redis.zadd(redis_keys.UNTIDY, {batch_id: seconds(self._redis)})
        for _ in range(_ROUNDS):
            fields: Any = self._redis.hgetall(redis_keys.recorded(batch_id))
            before = fields.get(label.encode())
            if before is None and len(fields) > MOST_GRADERS:
                raise Conflict(f"batch {batch_id!r} has scores of {MOST_GRADERS} graders that were recorded, the most")
            kept = None if before is None else msgspec.msgpack.decode(before, type=_Kept)
            try:
                new = self._write(batch_id, kept, scores)
            except (FileNotFoundError, CutOff) as error:
                self._raise_if_not_replaced(batch_id, fields, error)
                continue
            packed = msgspec.msgpack.encode(new)
            more = new.size - (kept.size if kept else 0)
            audit = self._audit.arguments(project, "batch.record", batch_id, f"{label}, {len(scores)} scores")
            most = self._quotas.spool_bytes
            found = text(self._record(args=[batch_id, project, label, before or b"", packed, more, most, *audit]))
            self._tidy(project, batch_id, found, new, kept, more)
            if found == "kept":
                return
        raise Conflict(f"scores of {label} are being recorded in batch {batch_id!r} by others: record these again")

    def _write(self, batch_id: str, kept: _Kept | None, scores: Sequence[Outcome]) -> _Kept:
        """Writes a file with the stored and the new scores."""
        name = secrets.token_hex(8)
        parts, size = [], 0
        with ExitStack() as opened:
            there = _lines(opened.enter_context(self._opened(batch_id, kept))) if kept else iter(())
            file = opened.enter_context(self._spool.writing_recorded(batch_id, name))
            lines = _replaced(there, scores)
            for block in joined(lines):  # reasons may be long: all lines at once would take hundreds of megabytes
                parts.append(tally(_decoder.decode_lines(block)))
                if len(parts) == MOST:
                    parts = [merged(parts)]
                size += file.write(block)
        return _Kept(name, kept.file if kept else "", size, merged(parts))

    def _tidy(self, project: str, batch_id: str, found: str, new: _Kept, kept: _Kept | None, more: int) -> None:
        """Removes files that are not read any more. Raises the errors of `record`."""
        if found == "kept":
            if kept is not None and kept.before:
                self._spool.remove_recorded(batch_id, kept.before)
            return
        self._spool.remove_recorded(batch_id, new.file)
        if found == "gone":
            self._spool.remove(batch_id)  # because the write may have recreated its folder
            raise NotFound(f"batch {batch_id!r} was deleted meanwhile: nothing was recorded")
        if found == "full":
            self._quotas.check_bytes(project, int(self._redis.hget(redis_keys.STORED, project) or 0), more)

    def remove_unnamed(self, batch_id: str, before: float) -> None:
        """Removes files that the hash does not name. Does nothing if scores were recorded after `before`: that caller
        may be about to name its file.
        """
        files = self._spool.recorded_files(batch_id)  # first: the writer of any of them updated UNTIDY before it began
        begun: Any = self._redis.zscore(redis_keys.UNTIDY, batch_id)
        if not files or begun is None or begun > before:
            return
        fields: Any = self._redis.hgetall(redis_keys.recorded(batch_id))
        kept = [msgspec.msgpack.decode(value, type=_Kept) for label, value in fields.items() if text(label) != _BYTES]
        for name in set(files).difference(*((one.file, one.before) for one in kept)):
            self._spool.remove_recorded(batch_id, name)

    def summaries(self, fields: Mapping[bytes, bytes]) -> list[Summary]:
        """The summaries of a batch's hash: one for each grader, in alphabetical order."""
        found = sorted((text(label), value) for label, value in fields.items() if text(label) != _BYTES)
        of = [(label, msgspec.msgpack.decode(value, type=_Kept).tally) for label, value in found]
        made = [summary_of(label, 0.0, counted) for label, counted in of]
        return [summary for summary in made if summary is not None]

    @contextmanager
    def opened(self, batch_id: str) -> Iterator[RecordedLines]:
        """The scores recorded for a batch now, to be read along with its outcomes.

        Raises:
            OutcomesLost: they are gone from the spool, or cut off.
            Conflict: others record scores all the time.
            OSError: the spool cannot be read now.
        """
        with ExitStack() as opened:
            yield RecordedLines(self._open(batch_id, opened))

    def _open(self, batch_id: str, opened: ExitStack) -> list[_RecordedFile]:
        for _ in range(_ROUNDS):
            fields: Any = self._redis.hgetall(redis_keys.recorded(batch_id))
            labels = sorted(label for label in fields if text(label) != _BYTES)
            kept = [msgspec.msgpack.decode(fields[label], type=_Kept) for label in labels]
            try:
                return [_RecordedFile(opened.enter_context(self._opened(batch_id, one)), one.size) for one in kept]
            except (FileNotFoundError, CutOff) as error:
                self._raise_if_not_replaced(batch_id, fields, error)
        raise Conflict(f"scores are being recorded in batch {batch_id!r} by others: read it again")

    def _opened(self, batch_id: str, kept: _Kept) -> IO[bytes]:
        """Opens the file of one grader. Raises FileNotFoundError, and CutOff if it is not whole."""
        with ExitStack() as failing:
            file = failing.enter_context(self._spool.open_recorded(batch_id, kept.file))
            if (size := file.seek(0, os.SEEK_END)) != kept.size:
                what = f"the scores {kept.file} of batch {batch_id} have {size} bytes of {kept.size}"
                raise CutOff(errno.EIO, what)
            file.seek(0)
            failing.pop_all()
        return file

    def _raise_if_not_replaced(self, batch_id: str, fields: dict[bytes, bytes], error: OSError) -> None:
        """Does nothing if others replaced a missing file meanwhile, so that the batch's hash is not `fields` any more.

        Raises:
            OutcomesLost: the file is lost.
            OSError: `error`, because the file may only not be visible yet.
        """
        if self._redis.hgetall(redis_keys.recorded(batch_id)) != fields:
            return
        begun: Any = self._redis.zscore(redis_keys.UNTIDY, batch_id)
        is_new = begun is not None and seconds(self._redis) - begun < lost_files.SETTLED_S
        if is_new or not self._spool.is_there(batch_id):
            raise error
        _log.error("recorded scores of batch %s are lost: %s", batch_id, error)
        state = "cut off in" if isinstance(error, CutOff) else "gone from"
        raise OutcomesLost(
            f"scores that were recorded in batch {batch_id!r} are {state} the spool: score its threads again in a new "
            "batch (`threads_of`), and record the scores in that"
        ) from error


def _replaced(there: Iterator[bytes], scores: Sequence[Outcome]) -> Iterator[bytes]:
    """Merges both in thread order. If both have a line for a thread, the new one is used."""
    new = ((one.index, msgspec.json.encode(one) + b"\n") for one in scores)
    pending: tuple[int, bytes] | None = None
    for found in merge(_numbered(there), new, key=itemgetter(0)):  # for equal indices, the stored line comes first
        if pending is not None and pending[0] != found[0]:
            yield pending[1]
        pending = found
    if pending is not None:
        yield pending[1]


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines from the place of a file on. The blocks grow: an object store takes a request for each."""

    def blocks() -> Iterator[bytes]:
        size = _BLOCK_BYTES
        while block := file.read(size):
            yield block
            size = min(2 * size, _MOST_BLOCK_BYTES)

    return (line + b"\n" for line in lines_of(blocks()))


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line with its index."""
    return ((index_of(line), line) for line in lines)


def index_of(line: bytes) -> int:
    """The index of an outcome's thread, which comes first in its line."""
    return int(line[_START : line.index(b",")])
