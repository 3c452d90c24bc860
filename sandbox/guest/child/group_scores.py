"""Encodes the result of a grader of groups: a list with a score, or an exception in place of one, for each thread."""

from collections.abc import Callable, Coroutine
from json import dumps
from typing import Any, NamedTuple

from gradebox.score import Score
from gradebox.thread import StringThread
from sandbox.guest.child.encode_outcome import (
    BadReturn,
    read_details,
    read_exception,
    read_reason,
    read_score,
    read_values,
)
from sandbox.guest.protocol.fields import CAUSE, DETAILS, MESSAGE, REPLY, SCORES, TRACE, most_of_scores, unpack_values
from sandbox.guest.protocol.records import BAD_RETURN, EXCEPTION, MEMORY, MODEL, NOT_APPLICABLE
from validators.exception_text import name_of

_KINDS = {EXCEPTION: "exception", MEMORY: "memory", MODEL: "model"}
_TEXTS_SHARE = 4  # a fourth of the room for scores is for their texts, which may take twice the bytes as JSON

Fields = list[tuple[int, bytes]]


class GroupReturn(NamedTuple):
    """The return value of `grade` for `threads` threads. `text` is the source of `grade`."""

    value: object
    threads: int
    text: str


def read_group_return(returned: GroupReturn, most_bytes: int, details_bytes: int) -> tuple[float, Fields]:
    """Reads the fields of the record: the scores as JSON, and the trace of the first exception among them.

    The score of the record itself has no meaning: the host computes it from these scores.

    Raises:
        BadReturn: the value is no list of as many scores; the message describes the value and the position.
    """
    items, count = _items(returned.value), returned.threads
    if len(items) != count:
        raise BadReturn(f"`grade` returned {len(items)} scores for {count} completions: return one for each, in order")
    most = most_of_scores(count)
    most_bytes = min(most_bytes, most // _TEXTS_SHARE // count)
    scores, trace = [], b""
    for place, item in enumerate(items):
        try:
            if issubclass(type(item), BaseException):
                score, its_trace = _missing(item, returned.text, most_bytes)
                trace = trace or its_trace
            else:
                score = _score(item, most_bytes, details_bytes)
        except BadReturn as problem:
            raise BadReturn(f"position {place} of what `grade` returned: {problem}") from None
        scores.append(score)
    data = b"[%b]" % b",".join(scores)
    if len(data) > most:
        raise BadReturn(
            f"the scores of {count} completions, with what they say, take {len(data)} bytes as JSON, and may take "
            f"{most}: give shorter details"
        )
    return 0.0, [(SCORES, data), *([(TRACE, trace)] if trace else [])]


def of_groups(
    grade: Callable[[Any], Coroutine[Any, Any, object]], text: str
) -> Callable[[list[StringThread]], Coroutine[Any, Any, GroupReturn]]:
    """Wraps `grade` so that its result is read as that of a group.

    The threads are counted before `grade` runs, because `grade` may change the list.
    """

    async def graded(threads: list[StringThread]) -> GroupReturn:
        count = len(threads)
        return GroupReturn(await grade(threads), count, text)

    return graded


def _items(value: object) -> list[Any] | tuple[Any, ...]:
    """Reads the items of a list or tuple in a way that a subclass cannot run code."""
    kind = type(value)
    if issubclass(kind, list):
        return list.__getitem__(value, slice(None))  # type: ignore[call-overload, no-any-return]  # issubclass holds
    if issubclass(kind, tuple):
        return tuple.__getitem__(value, slice(None))  # type: ignore[call-overload, no-any-return]  # issubclass holds
    raise BadReturn(
        "`grade` takes a list of threads, so it returns a list of as many scores, and it returned an object of type "
        f"`{name_of(kind)[:100]}`"
    )


def _score(item: object, most_bytes: int, details_bytes: int) -> bytes:
    members = [b'"score":%b' % repr(read_score(item)).encode()]
    if issubclass(type(item), Score):
        members += [b'"reason":%b' % _text(data) for _, data in read_reason(item, most_bytes)]
        members += [b'"values":%b' % dumps(unpack_values(data)).encode() for _, data in read_values(item)]
        members += [b'"details":%b' % data for _, data in read_details(item, details_bytes)]
    return b"{%b}" % b",".join(members)


def _missing(error: BaseException, text: str, most_bytes: int) -> tuple[bytes, bytes]:
    """Returns the JSON in place of a score, and the trace."""
    kind, fields = read_exception(error, text, most_bytes)
    told = dict(fields)
    message = told.get(MESSAGE, b"")
    if kind == BAD_RETURN:
        raise BadReturn(message.decode())
    if kind == NOT_APPLICABLE:
        members = [b'"score":null', b'"not_applicable":%b' % _text(message)]
    else:
        said: dict[str, Any] = {"kind": _KINDS[kind], "message": message.decode("utf-8", "replace")}
        if kind == MODEL:
            said["retryable"] = told[CAUSE][:1] == b"\x01"
            said["cause"] = told[CAUSE][1:].decode("utf-8", "replace")
        if REPLY in told:
            said["reply"] = told[REPLY].decode("utf-8", "replace")
        members = [b'"score":null', b'"error":%b' % dumps(said, ensure_ascii=False).encode()]
    if DETAILS in told:
        members.append(b'"details":%b' % told[DETAILS])
    return b"{%b}" % b",".join(members), told.get(TRACE, b"")


def _text(data: bytes) -> bytes:
    return dumps(data.decode("utf-8", "replace"), ensure_ascii=False).encode()
