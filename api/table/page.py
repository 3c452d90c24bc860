"""One page of the table, of an ended or a running batch."""

from itertools import starmap
from typing import NamedTuple

import msgspec

from api.numbers.jobs import TextFound
from api.table.outcome_row import ShownRow, row_of
from api.table.row_lines import by_index, in_order
from api.table.table_jobs import GraderTable
from gradebox.schemas.outcome_table import Sort, TablePage
from storage.outcomes.outcome_selection import OutcomeFilter, OutcomeSelection


class PageOf(NamedTuple):
    """The requested page."""

    wanted: OutcomeFilter
    sort: Sort
    page: int
    limit: int

    @property
    def needs_index(self) -> bool:
        """Whether the page is filtered, or in another order than by index."""
        return self.sort != "index" or self.wanted != OutcomeFilter()


def page(table: GraderTable, of: PageOf, text: TextFound | None) -> bytes:
    """The page as JSON; with `text`, of only the rows that it names. Raises OSError and Conflict."""
    if not table.is_over:
        rows = range(table.graded.rows)[(of.page - 1) * of.limit :][: of.limit]
        return _shown(table, of, table.graded.rows, [*starmap(row_of, in_order(table.graded, rows))], None)
    among = None if text is None else frozenset(text.rows)
    found = OutcomeSelection(table.index, of.wanted).page(of.sort, (of.page - 1) * of.limit, of.limit, among)
    ascending = sorted(found.rows)
    shown = starmap(row_of, by_index(table.graded, table.index, ascending))  # one after the other: each may be long
    cut = dict(zip(ascending, shown, strict=True))
    return _shown(table, of, found.total, [cut[row] for row in found.rows], text)


def _shown(table: GraderTable, of: PageOf, total: int, rows: list[ShownRow], text: TextFound | None) -> bytes:
    searched, is_cut = (None, False) if text is None else (text.searched, text.is_cut)
    told = TablePage(
        batch=table.batch,
        grader=table.grader,
        total=total,
        page=of.page,
        limit=of.limit,
        sort=of.sort,
        searched=searched,
        is_cut=is_cut,
        is_over=table.is_over,
        rows=rows,  # type: ignore[arg-type]  # each is encoded as a `TableRow`
    )
    return msgspec.json.encode(told)
