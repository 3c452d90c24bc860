"""Scores that come from outside: what people, or other programs, say of the threads of a batch, by graders of kind
`custom`.

Those of one grader are a file of the spool, in the order of the threads. Recording more writes another file, and then
names it in the batch's hash: a reader sees all of an upload, or nothing of it. The file before is kept for one more
change, for those who read it. What a process leaves that ends before it has named its file, the janitor removes.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from redis import Redis

from gradebox.outcome import Outcome
from gradebox.schemas import Summary
from storage import names
from storage.audit import Audit
from storage.blocks import joined
from storage.connection import script, text
from storage.errors import Conflict, NotFound
from storage.quotas import Quotas
from storage.spool import Spool
from storage.statistics import Tally, merged, tally
from storage.summary import summary_of

MOST_GRADERS = 16
_ROUNDS = 5
_BYTES = "bytes"  # the field of the hash with the sum of all files; the others are labels, which have an @
_START = len(b'{"index":')
_decoder = msgspec.json.Decoder(Outcome)


class _Kept(msgspec.Struct, array_like=True):
    """The scores of one grader: the file, the one before it, its size, and what it comes to."""

    file: str
    before: str
    size: int
    tally: Tally


class RecordedLines:
    """The recorded outcomes of a batch, as they are read in the order of its threads."""

    def __init__(self, files: Sequence[Iterator[bytes]]) -> None:
        self.are_none = not files
        self._of_threads = groupby(merge(*map(_numbered, files), key=itemgetter(0)), itemgetter(0))
        self._next = next(self._of_threads, None)

    def of(self, index: int) -> list[bytes]:
        """The lines of one thread; of later calls the index is higher."""
        while self._next is not None and self._next[0] < index:
            self._next = next(self._of_threads, None)
        if self._next is None or self._next[0] > index:
            return []
        lines = [line for _, line in self._next[1]]
        self._next = next(self._of_threads, None)
        return lines


class RecordedScores:
    """Of the batches of all projects."""

    def __init__(self, redis: Redis, spool: Spool, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._spool = spool
        self._audit = audit
        self._quotas = quotas
        self._record = script(redis, "record")

    def record(self, project: str, batch_id: str, scores: Sequence[Outcome]) -> None:
        """Keeps scores of one grader, in the order of the threads, in place of those that the same threads have by it.

        Raises:
            NotFound: the batch is gone.
            Conflict: scores of this grader are being recorded by several at once, or of too many graders.
            QuotaExceeded: the project keeps as much as it may.
            OSError: the spool cannot be written.
        """
        label = scores[0].grader
        self._redis.zadd(names.UNTIDY, {batch_id: time.time()})  # before there is a file that may be left
        for _ in range(_ROUNDS):
            fields: Any = self._redis.hgetall(names.recorded(batch_id))
            before = fields.get(label.encode())
            if before is None and len(fields) > MOST_GRADERS:
                raise Conflict(f"batch {batch_id!r} has scores of {MOST_GRADERS} graders that were recorded, the most")
            kept = None if before is None else msgspec.msgpack.decode(before, type=_Kept)
            try:
                new = self._write(batch_id, kept, scores)
            except FileNotFoundError:  # what was kept was replaced by others meanwhile
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
        """A file of what is kept and what is new."""
        name = secrets.token_hex(8)
        parts, size = [], 0
        with ExitStack() as opened:
            there = opened.enter_context(self._spool.open_recorded(batch_id, kept.file)) if kept else ()
            file = opened.enter_context(self._spool.writing_recorded(batch_id, name))
            lines = _replaced(iter(there), scores)
            for block in joined(lines):  # a reason may be long: so many lines would take hundreds of megabytes
                parts.append(tally(_decoder.decode_lines(block)))
                size += file.write(block)
        return _Kept(name, kept.file if kept else "", size, merged(parts))

    def _tidy(self, project: str, batch_id: str, found: str, new: _Kept, kept: _Kept | None, more: int) -> None:
        """Removes what nobody reads now. Raises what `record` raises."""
        if found == "kept":
            if kept is not None and kept.before:
                self._spool.remove_recorded(batch_id, kept.before)
            return
        self._spool.remove_recorded(batch_id, new.file)
        if found == "gone":
            self._spool.remove(batch_id)  # which may have made its folder again
            raise NotFound(f"batch {batch_id!r} was deleted meanwhile: nothing was recorded")
        if found == "full":
            self._quotas.check_bytes(project, int(self._redis.hget(names.STORED, project) or 0), more)

    def remove_unnamed(self, batch_id: str, before: float) -> None:
        """Removes files that count for nothing, where nobody has recorded since that time, and so may be about to name
        its file.
        """
        files = self._spool.recorded_files(batch_id)  # first: whoever has one of them has noted before that it begins
        begun: Any = self._redis.zscore(names.UNTIDY, batch_id)
        if not files or begun is None or begun > before:
            return
        fields: Any = self._redis.hgetall(names.recorded(batch_id))
        kept = [msgspec.msgpack.decode(value, type=_Kept) for label, value in fields.items() if text(label) != _BYTES]
        for name in set(files).difference(*((one.file, one.before) for one in kept)):
            self._spool.remove_recorded(batch_id, name)

    def summaries(self, fields: Mapping[bytes, bytes]) -> list[Summary]:
        """Of what the hash of a batch holds: one for each grader, in the order of the alphabet."""
        found = sorted((text(label), value) for label, value in fields.items() if text(label) != _BYTES)
        of = [(label, msgspec.msgpack.decode(value, type=_Kept).tally) for label, value in found]
        made = [summary_of(label, 0.0, counted) for label, counted in of]
        return [summary for summary in made if summary is not None]

    @contextmanager
    def opened(self, batch_id: str) -> Iterator[RecordedLines]:
        """What is recorded of a batch now, to be read along with its outcomes. May raise OSError."""
        with ExitStack() as opened:
            yield RecordedLines(self._open(batch_id, opened))

    def _open(self, batch_id: str, opened: ExitStack) -> list[Iterator[bytes]]:
        for _ in range(_ROUNDS):
            fields: Any = self._redis.hgetall(names.recorded(batch_id))
            labels = sorted(label for label in fields if text(label) != _BYTES)
            files = [msgspec.msgpack.decode(fields[label], type=_Kept).file for label in labels]
            try:
                return [iter(opened.enter_context(self._spool.open_recorded(batch_id, file))) for file in files]
            except FileNotFoundError:  # they were replaced meanwhile, twice
                continue
        raise Conflict(f"scores are being recorded in batch {batch_id!r} by others: read it again")


def _replaced(there: Iterator[bytes], scores: Sequence[Outcome]) -> Iterator[bytes]:
    """The lines of both in the order of the threads; of a thread that both have, the new one."""
    new = ((one.index, msgspec.json.encode(one) + b"\n") for one in scores)
    pending: tuple[int, bytes] | None = None
    for found in merge(_numbered(there), new, key=itemgetter(0)):  # of equal ones, that of the first comes first
        if pending is not None and pending[0] != found[0]:
            yield pending[1]
        pending = found
    if pending is not None:
        yield pending[1]


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line with its index, which stands first in it."""
    for line in lines:
        yield int(line[_START : line.index(b",")]), line
