"""Converts rows of a dataset into threads."""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

from gradebox.client.thread_line import MalformedLine
from gradebox.client.threads import Reader, Repeatable, Threads, check_kind, is_frame, is_repeatable
from gradebox.rewards.plain import metadata, plain_in

_MEMBERS = ("messages", "turns", "prompt", "completion", "metadata", "id")
_NAMED = (*_MEMBERS, "completions")  # what a column may be mapped to; "completions" is for groups

_log = logging.getLogger("gradebox")

Columns = Mapping[str, str]
"""Maps columns of a row to members of a thread: `{"question": "prompt", "response": "completion"}`. A column with the
name of a member, such as `id`, is that member unless another column is mapped to it. Every other column is metadata.
"""


def with_columns(threads: Threads, columns: Columns | None) -> Threads:
    """The threads; with `columns`, the rows of a dataset or file, converted into threads.

    Raises:
        TypeError: `columns` is no dict.
        ValueError: a column is mapped to a member that threads do not have, or two columns are mapped to the same one.
    """
    if columns is None:
        return threads
    if not isinstance(columns, Mapping):
        raise TypeError(f'columns={columns!r:.80} is no dict: pass one such as {{"question": "prompt"}}')
    for name, member in columns.items():
        if member not in _NAMED:
            advice = f": write {{{member!r}: {name!r}}}" if name in _NAMED else ""
            raise ValueError(
                f"columns={{{name!r}: {member!r}}}: a thread has {', '.join(_NAMED)}, and no {member!r}{advice}"
            )
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"columns={dict(columns)!r}: two columns cannot be the same member of a thread")
    rows = _Rows(threads, columns)
    # If the source can be read only once, return an iterator, so that `Resend` does not try to send it again.
    return rows if is_repeatable(threads) else iter(rows)


@dataclass(frozen=True)
class _Rows(Repeatable):
    """Rows that are converted into threads on each iteration."""

    rows: Threads
    columns: Columns

    def __iter__(self) -> Iterator[Any]:
        for number, row in enumerate(_read(self.rows)):
            if isinstance(row, MalformedLine):
                yield row
                continue
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"row {number} is a {type(row).__name__}, and columns= needs dicts "
                    "such as a datasets.Dataset or a pandas.DataFrame gives"
                )
            if number == 0:
                _report_no_prompt(row, self.columns)
            yield _thread(row, self.columns, number)


def _report_no_prompt(row: Mapping[Any, Any], columns: Columns) -> None:
    """Logs a warning if a column is mapped to the completion and none is the prompt, because judges need it."""
    if "completion" in columns.values() and "prompt" not in {*columns.values(), *row}:
        metadata = ", ".join(str(name) for name in row if name not in (*columns, *_MEMBERS))
        _log_no_prompt(metadata[:200] or "none")


@lru_cache(64)  # once for the same columns, and not at each upload of a training run
def _log_no_prompt(metadata: str) -> None:
    _log.warning(
        "no column is the prompt, so the threads have no turn of the user. If the grader reads it, map it too. "
        "Columns that become metadata: %s",
        metadata,
    )


def _read(rows: Threads) -> Iterator[object]:
    if isinstance(rows, str | os.PathLike):
        with Path(rows).open("rb") as file:
            yield from _parsed(file)
    elif isinstance(rows, Reader):
        if not isinstance(rows, Iterable):
            raise TypeError('with columns=, a file of rows must be opened by open(path, "rb")')
        yield from _parsed(rows)
    elif is_frame(rows):
        records: Any = rows
        if not records.columns.is_unique:  # `to_dict` keeps the last of them
            twice = records.columns[records.columns.duplicated()][0]
            raise ValueError(f"the DataFrame has several columns {twice!r}: rename them, or leave all but one out")
        yield from records.to_dict("records")
    else:
        yield from rows


def _parsed(lines: Iterable[bytes | str]) -> Iterator[object]:
    """The rows of a file. As for the service, a line that is no row counts, but not white space at the very end."""
    blank = 0
    for number, text in enumerate(lines):
        line = text.encode() if isinstance(text, str) else text
        if number == 0:
            check_kind(line)
        if not line.strip():
            blank += 1
            continue
        yield from repeat(MalformedLine(b""), blank)
        blank = 0
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        yield row if isinstance(row, dict) else MalformedLine(line.rstrip(b"\r\n"))


def _thread(row: Mapping[Any, Any], columns: Columns, number: int) -> dict[str, Any]:
    absent = [name for name in columns if name not in row]
    if absent:
        raise ValueError(f"row {number} has no column {absent[0]!r}: it has {', '.join(map(str, row))[:200]}")
    by_name = {name: name for name in _MEMBERS if name in row and name not in columns and name not in columns.values()}
    members = {**columns, **by_name}
    thread = {named: plain_in(row[name], f"row {number}, column {name!r}") for name, named in members.items()}
    own = thread.get("metadata") or {}
    if not isinstance(own, dict):
        raise ValueError(f"row {number}: a column for metadata holds dicts, and this is a {type(own).__name__}")
    rest = metadata({name: value for name, value in row.items() if name not in members}, row=number)
    return thread | {"metadata": rest | own}
