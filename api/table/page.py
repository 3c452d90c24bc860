"""One page of the table: rows of outcomes, with the beginnings of their completions."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from api.numbers.jobs import TextFound
from api.table.completions import completion
from api.table.making import GraderTable
from gradebox.outcome import OutcomeError
from gradebox.outcome_table import TEXT_CHARACTERS, Sort
from storage.outcome_selection import OutcomeFilter, OutcomeSelection
from storage.spool import Spool

THREAD_BYTES = 256 * 1024  # of a longer one the completion is not looked at: its parts may take twenty times as much
PARTS_BYTES = 2000

_Raw = msgspec.Raw | UnsetType
_TEXTS = ("reason", "stdout", "not_applicable")


class PageOf(NamedTuple):
    """Which page is asked for."""

    wanted: OutcomeFilter
    sort: Sort
    page: int
    limit: int


class _Row(msgspec.Struct, omit_defaults=True, gc=False):
    """An outcome, of which the parts that may be large stay as they are written; as it is answered, a `TableRow`."""

    index: int
    grader: str
    score: float | None
    run_ms: float
    id: str | int | None = None
    reason: str | None = None
    error: OutcomeError | None = None
    stdout: str | None = None
    values: _Raw = UNSET
    no_completion: bool = False
    not_applicable: str | None = None
    details: _Raw = UNSET
    spent: _Raw = UNSET
    scores: _Raw = UNSET
    completion: str | None = None
    cut: list[str] = []


class _Page(msgspec.Struct):
    """A `TablePage`, as it is answered."""

    batch: str
    grader: str
    total: int
    page: int
    limit: int
    sort: Sort
    searched: int | None
    is_cut: bool
    rows: list[_Row]


_decode = msgspec.json.Decoder(_Row).decode


def page(spool: Spool, table: GraderTable, of: PageOf, text: TextFound | None) -> bytes:
    """The page as JSON; with `text`, of the rows that it names alone. Raises OSError and Conflict."""
    among = None if text is None else frozenset(text.rows)
    selection = OutcomeSelection(table.index, of.wanted)
    found = selection.page(of.sort, (of.page - 1) * of.limit, of.limit, among)
    rows = list(_rows(spool, table, found.rows))
    searched, is_cut = (None, False) if text is None else (text.searched, text.is_cut)
    told = _Page(table.batch, table.grader, found.total, of.page, of.limit, of.sort, searched, is_cut, rows)
    return msgspec.json.encode(told)


def _rows(spool: Spool, table: GraderTable, rows: Sequence[int]) -> Iterator[_Row]:
    places = zip(rows, table.index.places(rows), strict=True)
    parts = [table.graded.parts(spool, row, before, at) for row, (before, at) in places]
    shown = [
        (outcome, thread._replace(end=thread.start) if thread.end - thread.start > THREAD_BYTES else thread)
        for outcome, thread in parts
    ]
    read = spool.read_parts(chain.from_iterable(shown))
    for (_, thread), (_, read_thread), outcome, line in zip(parts, shown, read, read, strict=True):
        yield _row(_decode(outcome), line, is_long=thread != read_thread)


def _row(row: _Row, thread: bytes, is_long: bool) -> _Row:
    cut: list[str] = []
    changes: dict[str, Any] = {}
    for name in _TEXTS:
        if (text := getattr(row, name)) is not None and len(text) > TEXT_CHARACTERS:
            changes[name] = text[:TEXT_CHARACTERS]
            cut.append(name)
    if row.error is not None:
        error = _cut_error(row.error)
        changes["error"] = error
        cut += ["error"] * (error != row.error)
    for name in ("details", "scores"):
        part = getattr(row, name)
        if part is not UNSET and len(bytes(part)) > PARTS_BYTES:
            changes[name] = UNSET
            cut.append(name)
    said = None if is_long else completion(thread)
    if said is not None:
        # JSON may hold halves of surrogate pairs, and UTF-8 cannot.
        changes["completion"] = said[:TEXT_CHARACTERS].encode(errors="replace").decode()
    if is_long or (said is not None and len(said) > TEXT_CHARACTERS):
        cut.append("completion")
    return replace(row, **changes, cut=cut)


def _cut_error(error: OutcomeError) -> OutcomeError:
    reply = None if error.reply is None else error.reply[:TEXT_CHARACTERS]
    return replace(error, message=error.message[:TEXT_CHARACTERS], reply=reply)
