"""Pages of a batch's outcomes, and its errors in groups: what the service answers, and users are given."""

from typing import Literal

import msgspec

from gradebox.outcome import ErrorKind, Outcome

KindFilter = Literal["scored", "not_applicable", "error"] | ErrorKind
Sort = Literal["index", "-index", "score", "-score", "run_ms", "-run_ms"]

MOST_ROWS = 200
MOST_PICKED = 50
"""Threads that are picked by their index at once."""
TEXT_CHARACTERS = 300
"""What a row shows of a reason, a message, what was printed, and a completion."""


class TableRow(Outcome, frozen=True, omit_defaults=True, gc=False):
    """An outcome with the beginning of its completion. Texts are cut at 300 characters; `details` and `scores` of more
    than 2,000 bytes are left out.

    Attributes:
        completion: the beginning of the thread's completion; None where it has none, for a group, and where the thread
            is longer than 256 KiB.
        cut: the names of the fields that are cut or left out.
    """

    completion: str | None = None
    cut: list[str] = msgspec.field(default_factory=list)


class TablePage(msgspec.Struct, frozen=True):
    """One page of a grader's outcomes.

    Attributes:
        total: how many outcomes match.
        page: its number, from 1.
        limit: outcomes on a page.
        searched: in how many outcomes the text was searched for; None without one.
        is_cut: whether the search ended before all were searched: more may match than `total` says.
        is_over: whether the batch is; else these are its outcomes so far.
    """

    batch: str
    grader: str
    total: int
    page: int
    limit: int
    sort: Sort
    searched: int | None
    is_cut: bool
    is_over: bool
    rows: list[TableRow]


class ErrorGroup(msgspec.Struct, frozen=True):
    """Errors of one kind whose messages differ only in numbers and in what is quoted.

    Attributes:
        message: with # in place of numbers, and '…' in place of what is quoted.
        line: of the grader's source, where the message names one.
        example: the message of the first, cut at 300 characters.
        indices: of the first few threads.
    """

    message: str
    line: int | None
    count: int
    example: str
    indices: list[int]


class KindGroups(msgspec.Struct, frozen=True):
    """The errors of one kind.

    Attributes:
        groups: the largest of them, largest first.
        others: how many errors are in none of them.
    """

    kind: ErrorKind
    count: int
    groups: list[ErrorGroup]
    others: int


class ErrorGroups(msgspec.Struct, frozen=True):
    """The errors of one grader in a batch, the most frequent kind first."""

    grader: str
    total: int
    kinds: list[KindGroups]
