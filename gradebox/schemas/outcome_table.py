"""Pages of a batch's outcomes and groups of its errors: the response types that the service sends and users receive."""

from typing import Literal

import msgspec

from gradebox.outcome import ErrorKind, Outcome

KindFilter = Literal["scored", "not_applicable", "error"] | ErrorKind
Sort = Literal["index", "-index", "score", "-score", "run_ms", "-run_ms"]
MOST_ROWS = 200
MOST_PICKED = 50
"""Maximum number of threads selected by index in one request."""
TEXT_CHARACTERS = 300
"""Maximum length of a reason, a message, printed text and a completion in a row."""


class TableRow(Outcome, frozen=True, omit_defaults=True, gc=False):
    """An outcome with the beginning of its completion. Texts are cut at 300 characters; `details`, `scores` and
    `completions` of more than 2,000 bytes are omitted.

    Attributes:
        completion: the beginning of the thread's completion; None if it has none, for a group, and if the thread is
            longer than 256 KiB.
        cut: the names of the fields that are cut or omitted.
    """

    completion: str | None = None
    cut: list[str] = msgspec.field(default_factory=list)


class TablePage(msgspec.Struct, frozen=True):
    """One page of a grader's outcomes.

    Attributes:
        total: number of matching outcomes.
        page: the page's number, from 1.
        limit: outcomes per page.
        searched: number of outcomes searched for the text; None without a text.
        is_cut: whether the search ended early, so that more outcomes may match than `total`.
        is_over: whether the batch has ended; otherwise these are its outcomes so far.
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
    """Errors of one kind whose messages differ only in numbers, ids and quoted text.

    Attributes:
        message: the message with # in place of numbers and ids, and '…' in place of quoted text.
        line: line of the grader's source, if the message names one.
        example: the message of the first error, cut at 300 characters.
        indices: indices of the first few threads.
    """

    message: str
    line: int | None
    count: int
    example: str
    indices: list[int]


class KindGroups(msgspec.Struct, frozen=True):
    """The errors of one kind.

    Attributes:
        groups: the largest groups, largest first.
        others: number of errors that are in none of these groups.
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
