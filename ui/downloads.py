"""Downloads of a batch's outcomes."""

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gradebox.outcome import Outcome, OutcomeDecoder, PlainOutcome
from storage.outcomes import outcomes
from storage.store import Store
from ui.visits import visit

_COLUMNS = ("index", "id", "grader", "score", "not_applicable", "error", "message", "reason", "run_ms", "scores")
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # spreadsheets treat text that starts with these as a formula
_decoder = OutcomeDecoder(PlainOutcome)


async def as_lines(request: Request) -> Response:
    """Send JSON lines, as the API does."""
    return await _file(request, "jsonl", "application/x-ndjson", lambda blocks: blocks)


async def as_csv(request: Request) -> Response:
    """Send CSV for other programs. Text that a spreadsheet would treat as a formula is prefixed with an apostrophe."""
    return await _file(request, "csv", "text/csv; charset=utf-8", _csv)


async def _file(request: Request, kind: str, media_type: str, made: Any) -> Response:
    who = await visit(request)
    batch_id = request.path_params["batch"]
    answers = who.services.large_answers
    first, rest = await answers.make(request, _begun, who.services.store, who.project, batch_id, made)
    headers = {"Content-Disposition": f'attachment; filename="{batch_id}.{kind}"'}
    sent = answers.stream(request, rest, first)
    return StreamingResponse(sent, headers=headers, media_type=media_type)


def _begun(store: Store, project: str, batch_id: str, made: Any) -> tuple[bytes, Iterator[bytes]]:
    """The first block, and the others. The outcomes' first block is read, too: an error after the headers would only
    break the download off.
    """
    store.batches.get(project, batch_id, summary=False)
    blocks = outcomes.read(store.batches, batch_id)
    sent = made(chain((next(blocks, b""),), blocks))
    return next(sent), sent


def _csv(blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield _written([_COLUMNS])
    rest = b""
    for block in blocks:  # blocks may end within a line: those of several graders are cut anywhere
        whole, _, rest = (rest + block).rpartition(b"\n")
        if whole:
            yield _written([_row(one) for one in _decoder.decode_lines(whole)])
    if rest:
        yield _written([_row(_decoder.decode(rest))])


def _row(one: Outcome) -> tuple[object, ...]:
    error = (one.error.kind, one.error.message) if one.error else ("", "")
    texts = (one.id, one.grader, one.score, one.not_applicable, *error, one.reason, one.run_ms, one.scores)
    return (one.index, *map(_guarded, texts))


def _guarded(value: object) -> object:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if value is None else json.dumps(value)


def _written(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
