"""The stored form of ended batches: everything that can be requested of one, in few bytes."""

import struct
import zlib
from collections import Counter
from datetime import datetime
from functools import cached_property

import msgspec
from msgspec.structs import asdict

from gradebox.outcome import Spent
from gradebox.schemas import Batch, BatchBudget, BatchGrader, BatchState, FeedbackOf, Summary, ValueSummary, WarningKind
from storage.batch_plan import PlannedGrader
from storage.connection import text
from storage.statistics.normal_interval import normal
from storage.statistics.summary import QUANTILES, bins, pass_rate, positional_bias, spent, weighted_mean

KEPT_TABLE_BYTES = 1024  # a longer one is a file in the spool
_TABLE = struct.Struct(">Q")
# The members of a summary that are stored as they are.
_SAME = (
    *("count", "scored", "errors", "mean", "deviation", "minimum", "maximum", "run_ms_mean", "warnings"),
    *("warning_kinds", "values_left_out", "passed", "options", "options_left_out"),
)
_RAW = -15  # deflate without a header and a checksum
# The zlib dictionary: what most records have in common, the most frequent last. It halves a small record. Records that
# were packed with it can be read only with it, so it must never change. Older records, packed without it, can be read
# with it too.
_COMMON = b"".join(
    (
        b"the mean is , and over the last 10 batches it was  (from  to ). Version  scored the batch before,  this one: "
        b"see whether the change meant thatThe grader is the same: see what changed in the threads or the model, and "
        b"read some of the best completions",
        b" completions have no score ( timeout,  exception): the scores that are left may be a biased sample. Read the "
        b"error messages of some outcomes, and mend the grader or the threads",
        b" scores are 1: a reward that never differs trains nothing. Look at some completions with their scores, and "
        b"at what the grader compares them to\xa4jump\xa6errors\x91\xa5equal",
        b"\xa9not_applicable\xabinfrastructure\xa6memory\xa5crash\xaabad_return\xa7timeout\x81\xa9exception\xa9cancelled",
        struct.pack(">Bd", 0xCB, 0.5) * 2,
        b"\x90\xc0\xc0\xc0\xc0\x90\x90",
        struct.pack(">Bd", 0xCB, 0.0) * 9,
        b"\x98\xa8finished\x01\xac",
        b"\x01\x01\x80" + struct.pack(">BdBd", 0xCB, 1.0, 0xCB, 0.0),
        struct.pack(">Bd", 0xCB, 1.0) * 2 + b"\x95" + struct.pack(">Bd", 0xCB, 1.0) * 5,
        b"\x91\x01\xcb?",
        b"\x90\x90\xc4*" + struct.pack(">QQQQQH", 32, 0, 63, 0, 1, 1),
    )
)


class _Values(msgspec.Struct, array_like=True):
    """The statistics of one named value."""

    count: int
    mean: float | None
    minimum: float
    maximum: float


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
    warning_kinds: list[WarningKind]
    values: dict[str, _Values] = {}
    values_left_out: int = 0
    spent: Spent | None = None
    passed: int | None = None
    options: dict[str, int] = {}
    options_left_out: int = 0
    bias_checked: int = 0
    bias_detected: int = 0
    retryable: int | None = None

    @property
    def not_applicable(self) -> int:
        return self.count - self.scored - sum(self.errors.values())


class _Record(msgspec.Struct, array_like=True):
    state: BatchState
    threads: int
    created_by: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    graders: list[_Graded]
    table: bytes | None
    floor: int = 0
    budget: tuple[float | None, int | None, str] | None = None
    keep_replies: bool = True
    feedback_of: str | None = None
    table_name: str = "table"
    weighted: bool = False


class Frozen:
    """An ended batch, from its stored form: a line with the project, the bytes that the batch takes and its entry in
    `redis_keys.ENDED`, then a record.
    """

    def __init__(self, value: bytes) -> None:
        self.value = value
        head, _, packed = value.partition(b"\n")
        self.project, _, ended = text(head).split(":")
        self._kept = not ended  # beyond the retention time
        self._packed = packed

    @cached_property
    def _record(self) -> _Record:
        unpacked = zlib.decompressobj(_RAW, _COMMON).decompress(self._packed)
        return msgspec.msgpack.decode(unpacked, type=_Record)

    @property
    def scorers(self) -> list[PlannedGrader]:
        """The graders, without the sources they scored with."""
        return [PlannedGrader(one.key, one.version, one.weight, source="") for one in self._record.graders]

    @property
    def table(self) -> bytes | None:
        """The result of `join`, or None if it is in the spool."""
        return self._record.table

    @property
    def table_name(self) -> str:
        """The name of the table in the spool."""
        return self._record.table_name

    @property
    def weighted(self) -> bool:
        """Whether there are combined outcomes."""
        return self._record.weighted

    @property
    def floor(self) -> int:
        """The highest attempt number that was leased in a cancelled retry."""
        return self._record.floor

    def batch(self, batch_id: str, *, summary: bool) -> Batch:
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
            not_applicable=sum(one.not_applicable for one in record.graders),
            created_by=record.created_by,
            created_at=record.created_at,
            started_at=record.started_at,
            finished_at=record.finished_at,
            budget=None if record.budget is None else _budget(*record.budget),
            replies="kept" if record.keep_replies else "new",
            feedback_of=None if record.feedback_of is None else FeedbackOf.model_validate_json(record.feedback_of),
            kept=self._kept,
            weighted=record.weighted,
            weighted_mean=weighted_mean(summaries),
            summary=summaries,
        )


def freeze(batch: Batch, table: bytes | str, floor: int = 0) -> bytes:
    """The record of a batch with all of its summaries. `table` is the result of `join`, or its name in the spool;
    `floor` is as in `Frozen.floor`.
    """
    record = _Record(
        batch.state,
        batch.threads,
        batch.created_by,
        batch.created_at,
        batch.started_at,
        batch.finished_at,
        [_graded(one, summary) for one, summary in zip(batch.graders, batch.summary, strict=True)],
        table if isinstance(table, bytes) else None,
        floor,
        None if batch.budget is None else (batch.budget.usd, batch.budget.tokens, "USD"),
        batch.replies == "kept",
        None if batch.feedback_of is None else batch.feedback_of.model_dump_json(),
        table if isinstance(table, str) else "",
        batch.weighted,
    )
    packer = zlib.compressobj(9, wbits=_RAW, zdict=_COMMON)
    return packer.compress(msgspec.msgpack.encode(record)) + packer.flush()


def join(chunks: bytes, done: bytes) -> bytes:
    """Joins the two packed tables of a batch."""
    return _TABLE.pack(len(chunks)) + chunks + done


def part(table: bytes) -> tuple[bytes, bytes]:
    """Splits a joined table into the arguments of `join`."""
    (length,) = _TABLE.unpack_from(table)
    return table[_TABLE.size : _TABLE.size + length], table[_TABLE.size + length :]


def _budget(limit: float | None, tokens: int | None, currency: str) -> BatchBudget:
    """A stored budget. An earlier one in another currency is 0 USD, as that of a batch that format 5 converts."""
    return BatchBudget(usd=limit if limit is None or currency == "USD" else 0.0, tokens=tokens)


def _graded(grader: BatchGrader, summary: Summary) -> _Graded:
    bias = summary.positional_bias
    return _Graded(
        key=grader.key,
        version=grader.version,
        weight=grader.weight,
        quantiles=list(summary.quantiles.values()),
        bins=[part.count for part in summary.histogram],
        values={name: _Values(one.count, one.mean, one.minimum, one.maximum) for name, one in summary.values.items()},
        spent=Spent(**summary.spent.model_dump()) if summary.spent is not None else None,
        bias_checked=bias.checked if bias is not None else 0,
        bias_detected=bias.detected if bias is not None else 0,
        retryable=summary.retryable,
        **{name: getattr(summary, name) for name in _SAME},
    )


def _summary(one: _Graded) -> Summary:
    low, high = one.minimum, one.maximum
    return Summary(
        grader=f"{one.key}@{one.version}",
        weight=one.weight,
        retryable=one.retryable if one.errors else 0,
        not_applicable=one.not_applicable,
        quantiles=dict(zip(QUANTILES, one.quantiles, strict=False)),
        histogram=[] if low is None or high is None else bins(low, high, one.bins),
        values={name: ValueSummary(**asdict(values)) for name, values in one.values.items()},
        spent=spent(one.spent),
        interval=None if one.mean is None or one.deviation is None else normal(one.mean, one.deviation, one.scored),
        pass_rate=pass_rate(one.passed, one.scored),
        positional_bias=positional_bias(one.bias_checked, one.bias_detected),
        **{name: getattr(one, name) for name in _SAME},
    )
