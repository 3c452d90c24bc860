"""Converts an outcome to a row of the table."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from api.table.completions import completion
from gradebox.outcome import OutcomeDecoder, OutcomeError
from gradebox.schemas.outcome_table import TEXT_CHARACTERS

PARTS_BYTES = 2000

_Raw = msgspec.Raw | UnsetType
_TEXTS = ("reason", "stdout", "not_applicable")


class ShownRow(msgspec.Struct, omit_defaults=True, gc=False):
    """An outcome, encoded as a `TableRow`. Parts that may be large stay raw JSON."""

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
    scores: list[float | None] | UnsetType = UNSET
    completions: _Raw = UNSET
    completion: str | None = None
    cut: list[str] = []


_decode = OutcomeDecoder(ShownRow).decode


def row_of(outcome: bytes, thread: bytes | None) -> ShownRow:
    """Converts the line of an outcome and that of its thread to a row. `thread` is None if it is too long to parse."""
    row = _decode(outcome)
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
    for name in ("details", "scores", "completions"):
        part = getattr(row, name)
        if part is not UNSET and len(msgspec.json.encode(part)) > PARTS_BYTES:
            changes[name] = UNSET
            cut.append(name)
    said = None if thread is None else completion(thread)
    if said is not None:
        # JSON may contain unpaired surrogates, which UTF-8 cannot encode.
        changes["completion"] = said[:TEXT_CHARACTERS].encode(errors="replace").decode()
    if thread is None or (said is not None and len(said) > TEXT_CHARACTERS):
        cut.append("completion")
    return replace(row, **changes, cut=cut)


def _cut_error(error: OutcomeError) -> OutcomeError:
    reply = None if error.reply is None else error.reply[:TEXT_CHARACTERS]
    return replace(error, message=error.message[:TEXT_CHARACTERS], reply=reply)
