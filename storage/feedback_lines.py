"""The lines of a batch of feedback: each a thread of another batch, as it was sent, with an outcome of it.

Threads are moved and not parsed; of outcomes, which the service wrote itself, the score is read.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat

import msgspec

from gradebox.judges.feedback import differs
from gradebox.schemas import Batch, FeedbackOf
from storage import batch_threads, outcomes
from storage.batches import Batches
from storage.feedback import GIVEN, METADATA
from storage.spool import Spool

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEEN_BYTES = 1024 * 1024  # that a block is made of
_encode = msgspec.json.encode


class _Outcome(msgspec.Struct):
    """As much of an outcome as is looked at."""

    index: int
    score: float | None
    id: str | int | None = None


_decode = msgspec.json.Decoder(_Outcome).decode

_Label = Callable[[_Outcome, bytes], float | None]
"""The label of an outcome, by what it says itself and by the outcome of the grader that labels."""


def read(
    batches: Batches, spool: Spool, batch: Batch, of: FeedbackOf, labels: Mapping[str, float], line_bytes: int
) -> Iterator[bytes]:
    """Whole lines, in blocks; none where there is nothing to say. A block may be empty: many threads without a line may
    stand one after another, and who reads may want to do something else meanwhile.

    `labels` are by the id of a thread, or its index where it has none. A line of more than `line_bytes` stands without
    its thread.
    """
    block: list[bytes] = []
    seen = 0
    for line, size in _lines(batches, spool, batch, of, labels, line_bytes):
        seen += size
        if line is not None:
            block.append(line)
        if seen >= _SEEN_BYTES:
            yield b"".join(block)
            block, seen = [], 0
    if block:
        yield b"".join(block)


def _lines(
    batches: Batches, spool: Spool, batch: Batch, of: FeedbackOf, labels: Mapping[str, float], line_bytes: int
) -> Iterator[tuple[bytes | None, int]]:
    """For each thread its line, if it has one, and how many bytes were looked at."""
    graders = [str(one) for one in batch.graders]
    place = graders.index(of.grader)
    label_place = graders.index(of.labels) if of.labels in graders else place
    lines = _each(outcomes.read(batches, spool, batch.id))
    told = zip(
        *repeat(lines, len(graders)), strict=False
    )  # of a batch that was cancelled, there are fewer than threads
    for said, thread in zip(told, _each(batch_threads.read(batches, spool, batch.id)), strict=False):
        outcome = _decode(said[place])
        label = _label(of, outcome, said[label_place], labels)
        wanted = outcome.score is not None and _is_wanted(of, outcome.score, label)
        line = _line(outcome, said[place], thread, label, line_bytes) if wanted else None
        yield line, len(thread) + sum(map(len, said))


def _label(of: FeedbackOf, outcome: _Outcome, other: bytes, given: Mapping[str, float]) -> float | None:
    """The right score of a thread, as far as it is known here."""
    if of.labels is None or of.labels.startswith(METADATA):
        return None
    if of.labels == GIVEN:
        return given.get(str(outcome.index if outcome.id is None else outcome.id))
    return _decode(other).score


def _is_wanted(of: FeedbackOf, score: float, label: float | None) -> bool:
    if of.labels is not None:
        if of.labels.startswith(METADATA):
            return True  # what stands in a thread is looked at in a sandbox
        return label is not None and (of.on == "all" or differs(score, label, of.threshold))
    return of.on == "all" or of.threshold is None or score < of.threshold


def _line(outcome: _Outcome, said: bytes, thread: bytes, label: float | None, line_bytes: int) -> bytes:
    identity = outcome.index if outcome.id is None else outcome.id
    head = b'{"id":%b,"completion":"","metadata":{"outcome":%b,' % (_encode(identity), said.rstrip())
    if label is not None:
        head += b'"label":%b,' % _encode(label)
    bare = thread.strip().removeprefix(_BYTE_ORDER_MARK)
    line = b'%b"thread":%b}}\n' % (head, bare)
    return line if len(line) <= line_bytes else b'%b"thread":null}}\n' % head


def _each(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of blocks, which need not end where lines end."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest
