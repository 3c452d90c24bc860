"""The lines of a batch of feedback: each has a thread of another batch, as it was sent, with one of its outcomes.

Threads are copied as they are, after a check that each is one JSON value. Outcomes were written by the service itself,
and only a few of their fields are decoded.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from itertools import groupby

import msgspec

from gradebox.judges.feedback import differs
from gradebox.schemas import Batch, FeedbackOf
from gradebox.thread_forms import METADATA
from storage.batches import batch_threads
from storage.batches.batches import Batches
from storage.batches.feedback_grader import GIVEN
from storage.batches.recorded_scores import index_of
from storage.errors import Refused
from storage.outcomes import outcomes
from storage.spool.blocks import lines_of

_SEEN_BYTES = 1024 * 1024  # scanned bytes that a block is made of
_HALVES = re.compile(rb"(\\\\)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")  # of surrogate pairs, which graders receive
_encode = msgspec.json.encode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class _Outcome(msgspec.Struct):
    """The fields of an outcome that are used here."""

    index: int
    grader: str
    score: float | None
    id: str | int | None = None


_decode = msgspec.json.Decoder(_Outcome).decode


class _Given:
    """Labels from the request, by thread id, or by index for a thread without an id."""

    def __init__(self, labels: Mapping[str, float]) -> None:
        self._labels = labels
        self._threads: dict[str, int] = {}

    def of(self, outcome: _Outcome) -> float | None:
        """The label of an outcome's thread. Raises Refused if another thread has the same name."""
        name = str(outcome.index if outcome.id is None else outcome.id)
        label = self._labels.get(name)
        if label is not None and (other := self._threads.setdefault(name, outcome.index)) != outcome.index:
            raise Refused(
                f"the label {name!r:.80} is that of threads {other} and {outcome.index}: record labels by `index`, and "
                "name the grader that they are recorded of"
            )
        return label

    def check_used(self) -> None:
        """Raises Refused if a label belongs to no thread."""
        if unused := [name for name in self._labels if name not in self._threads]:
            raise Refused(
                f"{len(unused)} of {len(self._labels)} labels are of no thread of the batch, such as "
                f"{unused[0]!r:.80}: name each thread by its id, or by its index where it has none"
            )


def read(
    batches: Batches, batch: Batch, of: FeedbackOf, labels: Mapping[str, float], line_bytes: int
) -> Iterator[bytes]:
    """Whole lines, in blocks; none if no outcome calls for feedback.

    A block may be empty: many successive threads may have no line, and the caller may want to do something else
    meanwhile.

    `labels` are by thread id, or by index for a thread without an id. A line of more than `line_bytes` is sent without
    its thread.

    Raises:
        Refused: a label belongs to two threads, or to none.
    """
    given = _Given(labels)
    block: list[bytes] = []
    seen = 0
    for line, size in _lines(batches, batch, of, given, line_bytes):
        seen += size
        if line is not None:
            block.append(line)
        if seen >= _SEEN_BYTES:
            yield b"".join(block)
            block, seen = [], 0
    if batch.state == "finished" and batches.settled(batch.id) is not None:  # else outcomes may be missing
        given.check_used()
    if block:
        yield b"".join(block)


def _lines(
    batches: Batches, batch: Batch, of: FeedbackOf, given: _Given, line_bytes: int
) -> Iterator[tuple[bytes | None, int]]:
    """For each thread, its line if it has one, and the number of bytes scanned."""
    threads = enumerate(lines_of(batch_threads.read(batches, batch.id)))
    for index, content in groupby(lines_of(outcomes.read(batches, batch.id)), index_of):
        thread = next(line for number, line in threads if number == index)  # if cancelled, some have no outcomes
        lines = list(content)
        yield _line(of, lines, thread, given, line_bytes), len(thread) + sum(map(len, lines))


def _line(of: FeedbackOf, lines: list[bytes], thread: bytes, given: _Given, line_bytes: int) -> bytes | None:
    """The line of the thread that has these outcomes, if it calls for feedback."""
    found = _of_grader(lines, of.grader)
    if found is None:
        return None
    outcome, content = found
    label = _label(of, outcome, lines, given)
    if outcome.score is None or not _is_wanted(of, outcome.score, label):
        return None
    return _joined(outcome, content, thread, label, line_bytes)


def _of_grader(lines: list[bytes], grader: str) -> tuple[_Outcome, bytes] | None:
    for line in lines:
        outcome = _decode(line)
        if outcome.grader == grader:
            return outcome, line
    return None


def _label(of: FeedbackOf, outcome: _Outcome, lines: list[bytes], given: _Given) -> float | None:
    """The right score of a thread, if it is known here."""
    if of.labels is None or of.labels.startswith(METADATA):
        return None
    if of.labels == GIVEN:
        return given.of(outcome)
    found = _of_grader(lines, of.labels)
    return None if found is None else found[0].score


def _is_wanted(of: FeedbackOf, score: float, label: float | None) -> bool:
    if of.labels is not None:
        if of.labels.startswith(METADATA):
            return True  # labels in the threads themselves are read in a sandbox
        return label is not None and (of.on == "all" or differs(score, label, of.threshold))
    return of.on == "all" or of.threshold is None or score < of.threshold


def _joined(outcome: _Outcome, content: bytes, thread: bytes, label: float | None, line_bytes: int) -> bytes:
    identity = outcome.index if outcome.id is None else outcome.id
    head = b'{"id":%b,"completion":"","metadata":{"outcome":%b,' % (_encode(identity), content.rstrip())
    if label is not None:
        head += b'"label":%b,' % _encode(label)
    line = b'%b"thread":%b}}\n' % (head, _value(thread))
    return line if len(line) <= line_bytes else b'%b"thread":null}}\n' % head


def _value(thread: bytes) -> bytes:
    """The thread, or its text as a JSON string if it is not JSON.

    Scores may be recorded for a thread that is not JSON. Copied as it is, that text could close the object around it
    and add members that the service did not write.
    """
    bare = thread.strip().removeprefix(BOM_UTF8)
    try:
        _check(_HALVES.sub(lambda found: found[1] or b"", bare))
    except (msgspec.DecodeError, RecursionError):
        return _encode(bare.decode(errors="replace"))
    return bare
