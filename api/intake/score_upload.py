"""Parses recorded scores from JSON lines, and assigns them to the threads of a batch."""

from codecs import BOM_UTF8
from collections.abc import Iterable
from operator import itemgetter
from typing import Annotated

import msgspec

from api.http.problems import invalid, too_large
from api.intake.json_cut import fault
from gradebox.outcome import Outcome
from runtime import slow_numbers
from sandbox.grading import thread_ids
from storage.spool.blocks import lines_of

MOST_SCORES = 100_000  # per request
_NOTHING = "nothing of this request was recorded"
_TYPES = ' (the number 1 and the text "1" are two ids)'

Id = str | int
_Score = Annotated[float, msgspec.Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]
_Index = Annotated[int, msgspec.Meta(ge=0)]


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A score of one thread, identified by its id or its index."""

    score: _Score
    id: Id | None = None
    index: _Index | None = None
    reason: str | None = None


_decode = msgspec.json.Decoder(_Line).decode


def read(body: bytes, text_bytes: int) -> list[_Line]:
    """Parses the scores of a request, whose reasons have at most `text_bytes`. Raises ProblemError with the line number
    if one is invalid.
    """
    lines = body.removeprefix(BOM_UTF8).rstrip(b" \t\r\n").split(b"\n", MOST_SCORES)
    if len(lines) > MOST_SCORES:
        raise too_large(f"one request records at most {MOST_SCORES} scores: send the rest in another")
    return [_line(number, line, text_bytes) for number, line in enumerate(lines, 1)]


def _line(number: int, line: bytes, text_bytes: int) -> _Line:
    if slow_numbers.are_many(line):
        raise invalid(f"line {number} is not read: {slow_numbers.REASON}")
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        form = '{"id": "a", "score": 1, "reason": "why"}'
        raise invalid(
            f"line {number} is no score ({fault(line, error):.200}): {_NOTHING}; write each as {form}"
        ) from error
    if (found.id is None) == (found.index is None):
        raise invalid(f"line {number} names a thread by its `id` or by its `index`: give one of them")
    if found.reason is not None and (size := len(found.reason.encode("utf-8", "surrogatepass"))) > text_bytes:
        raise invalid(f"line {number} has a reason of {size} bytes, and at most {text_bytes} are kept: shorten it")
    return found


def outcomes_of(scores: list[_Line], grader: str, count: int, threads: Iterable[bytes]) -> list[Outcome]:
    """Returns outcomes of `grader`, a label, in thread order. `count` is the number of the batch's threads; `threads`
    are blocks of whole lines. Each outcome has the id of its thread.

    Raises:
        ProblemError: a score matches no thread of the batch, or two match the same one.
    """
    there = _Threads(scores, threads)
    lines: dict[int, tuple[int, _Line]] = {}
    for number, one in enumerate(scores, 1):
        index = _index(number, one, count, there)
        if index in lines:
            raise invalid(f"lines {lines[index][0]} and {number} are both for thread {index}: {_NOTHING}; send one")
        lines[index] = number, one
    return [
        Outcome(index, grader, one.score, 0.0, id=there.ids.get(index), reason=one.reason)
        for index, (_, one) in sorted(lines.items(), key=itemgetter(0))
    ]


class _Threads:
    """The threads that scores refer to: the id for each index, and the first two indices for each id."""

    def __init__(self, scores: Iterable[_Line], threads: Iterable[bytes]) -> None:
        by_id = {one.id for one in scores if one.id is not None}
        by_index = {one.index for one in scores if one.index is not None}
        self.ids: dict[int, Id] = {}
        self.indices: dict[Id, list[int]] = {}
        for index, line in enumerate(lines_of(threads)):
            if (of := thread_ids.read_id(line)) is None:
                continue
            if of in by_id and len(found := self.indices.setdefault(of, [])) < 2:
                found.append(index)
                self.ids[index] = of
            elif index in by_index:
                self.ids[index] = of


def _index(number: int, one: _Line, count: int, there: _Threads) -> int:
    if one.index is not None:
        if one.index >= count:
            raise invalid(f"line {number}: the batch has no thread {one.index}, it has {count}: {_NOTHING}")
        return one.index
    assert one.id is not None
    of = there.indices.get(one.id, [])
    if not of:
        types = _TYPES if isinstance(one.id, int) or one.id.removeprefix("-").isdigit() else ""
        raise invalid(f"line {number}: the batch has no thread with the id {one.id!r:.80}{types}: {_NOTHING}")
    if len(of) == 2:
        raise invalid(
            f"line {number}: the id {one.id!r:.80} is that of threads {of[0]} and {of[1]}: {_NOTHING}; name them by "
            "`index`"
        )
    return of[0]
