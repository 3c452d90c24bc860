"""Searches the graders' texts and the completions for a text, within a time limit."""

import re
from collections.abc import Callable, Iterator
from time import monotonic

import msgspec

from api.numbers.jobs import SearchJob, TextFound
from api.table.completions import completions

MOST_FOUND = 10_000
# Characters that JSON writes as they are or as \u escapes: ASCII without quotes, backslashes and slashes.
_PLAIN = re.compile(rb"[ !#-.0-\[\]-~]+")


class _Error(msgspec.Struct):
    message: str


class _Line(msgspec.Struct):
    reason: str | None = None
    not_applicable: str | None = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Line).decode


class _Needle:
    """The text to find. It is first searched in raw lines, and then in the decoded texts of the lines that match."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        runs = _PLAIN.findall(self._text.encode("utf-8", "surrogatepass"))
        self._run = max(runs, key=len, default=b"")

    def may_be_in(self, line: bytes) -> bool:
        """Whether the line may contain the text and has to be decoded."""
        return self._run in line.lower() or b"\\u" in line

    def is_in(self, text: str | None) -> bool:
        """Whether a decoded text contains it."""
        return text is not None and self._text in text.lower()


def run(job: SearchJob, streams: Iterator[Iterator[bytes]]) -> bytes:
    """Finds the rows that contain the text in a reason, a message or a completion."""
    needle, ends = _Needle(job.text), monotonic() + job.time_s
    found: list[int] = []
    first = 0
    for lines in job.chunks:
        rows = {first + at for at in _matches(needle, next(streams), _in_outcome)}
        rows |= {first + at for at in _matches(needle, next(streams), _in_thread)}
        found += sorted(rows)
        first += lines
        if len(found) >= MOST_FOUND or monotonic() >= ends:
            break
    total = sum(job.chunks)
    is_cut = first < total or len(found) > MOST_FOUND
    return msgspec.json.encode(TextFound(found[:MOST_FOUND], first, is_cut))


def _matches(needle: _Needle, blocks: Iterator[bytes], is_in: Callable[[_Needle, bytes], bool]) -> Iterator[int]:
    """Yields the numbers of the matching lines."""
    first = 0
    for block in blocks:
        lines = block.count(b"\n")
        if needle.may_be_in(block):
            for number, line in enumerate(block.split(b"\n")[:lines], first):
                if needle.may_be_in(line) and is_in(needle, line):
                    yield number
        first += lines


def _in_outcome(needle: _Needle, line: bytes) -> bool:
    outcome = _decode(line)
    message = None if outcome.error is None else outcome.error.message
    return any(map(needle.is_in, (outcome.reason, outcome.not_applicable, message)))


def _in_thread(needle: _Needle, line: bytes) -> bool:
    return any(map(needle.is_in, completions(line)))
