"""Error messages that differ only in numbers, ids and quoted text, for grouping them."""

import re
from typing import NamedTuple

from gradebox.schemas.outcome_table import TEXT_CHARACTERS

_LOOKED_AT = 500  # characters of a message that are compared
_LINE_CHARACTERS = 20  # the most characters of the line number at the end of a message
_LINE = re.compile(r" \(line (\d{1,9})\)$")
_VARIES = re.compile(
    r"""
    (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)  # with apostrophes, as in 'it's 4'
    | (?<!\w)"(?:[^"\n]|(?<=\w)"(?=\w))*"(?!\w)
    | (?<![^\W_])(?=[a-zA-Z]*[0-9])(?:
        [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}
        | 0x[0-9a-fA-F]+
        | [0-9a-fA-F]{6,}(?![a-zA-Z0-9])
        | (?=[a-zA-Z]*[0-9]+[a-zA-Z])[a-zA-Z0-9]{6,}(?![a-zA-Z0-9])  # ids such as x7Kq2b, but not float64
        | [a-zA-Z][0-9]+(?![^\W_])  # ids such as q17
        | [0-9]+(?:[.,][0-9]+)*(?:e[+-]?[0-9]+)?
    )""",
    re.VERBOSE,
)
_UNENDED = re.compile(r"""(?<!\w)(?:'[^'\n]*|"[^"\n]*)\Z""")
_REPEATED = re.compile(r"""(#|'…'|"…")(?:, ?\1)+""")


class Similar(NamedTuple):
    """What similar messages have in common.

    Attributes:
        message: the message with # in place of numbers and ids, '…' in place of quoted text, and without the line.
            Of several in a row, separated by commas, there is one, followed by an ellipsis.
        line: the line of the source that the message names at its end; None if it names none.
    """

    message: str
    line: int | None


def group_of(message: str) -> Similar:
    """Return what a message has in common with those that differ only in numbers, ids and quoted text. Only its
    beginning is compared.
    """
    end = message[-_LINE_CHARACTERS:]
    where = _LINE.search(end)
    said = message if where is None else message[: len(message) - len(end) + where.start()]
    general = _VARIES.sub(_general, said[:_LOOKED_AT])
    if len(said) > _LOOKED_AT:  # the last quoted text may have lost its end
        general = _UNENDED.sub(_general, general)
    general = _REPEATED.sub(r"\1, …", general)
    return Similar(general[:TEXT_CHARACTERS], None if where is None else int(where[1]))


def _general(found: re.Match[str]) -> str:
    first = found[0][0]
    return f"{first}…{first}" if first in "'\"" else "#"
