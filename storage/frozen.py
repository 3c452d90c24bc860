"""Batches that are over, as they are kept: all that can be asked of one, in few bytes."""

import struct
import zlib
from collections import Counter
from datetime import datetime
from functools import cached_property

import msgspec

from gradebox.schemas import Batch, BatchGrader, BatchState, Summary, WarningKind
from storage.connection import text
from storage.plans import Scorer
from storage.summary import QUANTILES, bins, weighted_mean

KEPT_TABLE_BYTES = 1024  # a longer one is a file of the spool
_TABLE = struct.Struct(">Q")
_RAW = -15  # deflate without a head and a checksum


class _Graded(msgspec.Struct, array_like=True):
    """A grader with its summary."""

    key: str
    version: int
    weight: float
    count: int
    scored: int
    errors: dict[str, int]
    mean: float | None
    deviation: float | None
    minimum: float | None
    maximum: float | None
    quantiles: list[float]
    bins: list[int]
    run_ms_mean: float | None
    warnings: list[str]
    kinds: list[WarningKind]


class _Record(msgspec.Struct, array_like=True):
    state: BatchState
    threads: int
    created_by: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    graders: list[_Graded]
    table: bytes | None


class Frozen:
    """A batch that is over, from what is kept of it: the project, the bytes that it takes, and a record."""

    def __init__(self, value: bytes) -> None:
        head, _, packed = value.partition(b"\n")
        self.project = text(head).partition(":")[0]
        self._packed = packed

    @cached_property
    def _record(self) -> _Record:
        return msgspec.msgpack.decode(zlib.decompress(self._packed, _RAW), type=_Record)

    @property
    def scorers(self) -> list[Scorer]:
        """The graders, without what they scored with."""
        return [Scorer(one.key, one.version, one.weight, source="") for one in self._record.graders]

    @property
    def table(self) -> bytes | None:
        """What `join` made, or None where it is in the spool."""
        return self._record.table

    def batch(self, batch_id: str, *, kept: bool, summary: bool) -> Batch:
        """The batch, as it was when it ended."""
        record = self._record
        summaries = [_summary(one) for one in record.graders] if summary else []
        return Batch(
            id=batch_id,
            project=self.project,
            state=record.state,
            graders=[BatchGrader(key=one.key, version=one.version, weight=one.weight) for one in record.graders],
            threads=record.threads,
            total=record.threads * len(record.graders),
            done=sum(one.count for one in record.graders),
            scored=sum(one.scored for one in record.graders),
            errors=dict(sum((Counter(one.errors) for one in record.graders), Counter())),
            created_by=record.created_by,
            created_at=record.created_at,
            started_at=record.started_at,
            finished_at=record.finished_at,
            kept=kept,
            weighted_mean=weighted_mean(summaries),
            summary=summaries,
        )


def freeze(batch: Batch, table: bytes | None) -> bytes:
    """The record of a batch with all of its summaries. `table` is what `join` made, where it is short."""
    record = _Record(
        batch.state,
        batch.threads,
        batch.created_by,
        batch.created_at,
        batch.started_at,
        batch.finished_at,
        [_graded(one, summary) for one, summary in zip(batch.graders, batch.summary, strict=True)],
        table,
    )
    packer = zlib.compressobj(9, wbits=_RAW)
    return packer.compress(msgspec.msgpack.encode(record)) + packer.flush()


def join(chunks: bytes, done: bytes) -> bytes:
    """The two tables of a batch, packed, as one."""
    return _TABLE.pack(len(chunks)) + chunks + done


def part(table: bytes) -> tuple[bytes, bytes]:
    """What `join` was given."""
    (length,) = _TABLE.unpack_from(table)
    return table[_TABLE.size : _TABLE.size + length], table[_TABLE.size + length :]


def _graded(grader: BatchGrader, summary: Summary) -> _Graded:
    return _Graded(
        grader.key,
        grader.version,
        grader.weight,
        summary.count,
        summary.scored,
        summary.errors,
        summary.mean,
        summary.deviation,
        summary.minimum,
        summary.maximum,
        list(summary.quantiles.values()),
        [part.count for part in summary.histogram],
        summary.run_ms_mean,
        summary.warnings,
        summary.warning_kinds,
    )


def _summary(one: _Graded) -> Summary:
    low, high = one.minimum, one.maximum
    return Summary(
        grader=f"{one.key}@{one.version}",
        weight=one.weight,
        count=one.count,
        scored=one.scored,
        errors=one.errors,
        mean=one.mean,
        deviation=one.deviation,
        minimum=one.minimum,
        maximum=one.maximum,
        quantiles=dict(zip(QUANTILES, one.quantiles, strict=False)),
        histogram=[] if low is None or high is None else bins(low, high, one.bins),
        run_ms_mean=one.run_ms_mean,
        warnings=one.warnings,
        warning_kinds=one.kinds,
    )
