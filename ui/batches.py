"""The list of batches, and the page of one batch with its table."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import Any, NamedTuple, cast

import msgspec
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.problems import invalid
from api.intake.batch_upload import Arrival, NewBatch, named
from api.intake.idempotency import Repeat
from api.numbers.combined_summaries import with_combined
from api.routes import tables
from api.routes.batches import own, retried
from api.routes.numbers import side
from gradebox.combination import COMBINED
from gradebox.schemas import ENDED, Batch
from gradebox.schemas.outcome_table import ErrorGroups, KindFilter, Sort, TablePage
from storage.connection import clock
from storage.errors import NotFound
from storage.store import Store
from ui import histogram, query
from ui.forms import read_form
from ui.row_page import outcomes_of
from ui.templates import duration, long_page, ui
from ui.visits import Visit, visit

_MADE_ANEW = {"HX-Refresh": "true"}
_PAGE = 50
_REPEATED_S = 60
_SUGGESTED = 200


async def listed(request: Request) -> Response:
    """List the newest batches of the project, or of one grader."""
    who = await visit(request)
    before, text = request.query_params.get("before"), request.query_params.get("grader", "")
    key, number = "", None
    if text:
        grader = named(text)
        key, number = grader.key, grader.version
    newest = who.services.store.batches.newest
    found = await who.services.read(request, newest, who.project, _PAGE, before, key, number)
    following = found[-1].id if len(found) == _PAGE else None
    return await long_page(
        request, "batches.html", visit=who, here="batches", batches=found, following=following, grader=text
    )


@dataclass(frozen=True)
class _View:
    """The settings of the table, from the URL."""

    grader: str
    number: int
    kind: str | None = None
    bin: int | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""
    sort: str = "index"

    @property
    def is_filtered(self) -> bool:
        """Whether it shows only some of the outcomes."""
        return bool(self.kind or self.text) or (self.bin, self.low, self.high) != (None, None, None)


async def show(request: Request) -> Response:
    """Show a batch: its progress and its table, and after its end the summary and the grouped errors."""
    who = await visit(request)
    batch = await _batch(request, who)
    view = _view(request, batch)
    if view.grader == COMBINED:
        batch = await with_combined(request, who.services, batch)
    table = await _table(request, who, batch, view)
    last_page = max(1, -(-table.total // _PAGE))
    if view.number > last_page:
        return RedirectResponse("?" + query.with_changes(request, {"page": last_page}), 303)
    errors = await _errors(request, who, batch, view) if table.is_over else None
    graders, _ = await who.services.read(request, who.services.store.graders.page, who.project)
    newest = who.services.store.batches.newest
    recent = await who.services.read(request, newest, who.project, _PAGE) if table.is_over else []
    return await long_page(
        request,
        "batch.html",
        visit=who,
        here="batches",
        batch=batch,
        is_over=batch.state in ENDED,
        may_change=who.may("manage") or (who.may("score") and batch.created_by == who.key.id),
        grader=view.grader,
        pace=await _pace(request, who, batch),
        others=await _others(request, who, batch, view, table),
        view=view,
        table=table,
        errors=errors,
        **_summary(batch, view.grader),
        unit="group" if await who.services.read(request, _are_groups, who.services.store, batch) else "thread",
        graders=[grader.key for grader in graders[:_SUGGESTED]],
        same=[one for one in recent if one.threads == batch.threads and one.state in ENDED and one.id != batch.id],
        last_page=last_page,
        once=token_hex(8),
        link=lambda **changes: "?" + query.with_changes(request, changes),
    )


def _are_groups(store: Store, batch: Batch) -> bool:
    """Whether the batch's threads are groups. False if the grader was deleted, which knew."""
    with suppress(NotFound):
        return store.graders.version(batch.project, batch.graders[0].key, batch.graders[0].version).groups
    return False


def _view(request: Request, batch: Batch) -> _View:
    """The view that was asked for. While the batch runs, only its outcomes so far can be shown, by index."""
    grader = side(batch, request.query_params.get("grader") or str(batch.graders[0])).grader
    number = query.number(request, "page", 1, tables.MOST_PAGES, 1) or 1
    if batch.state not in ENDED:
        return _View(grader, number)
    kind, bar = query.one_of(request, "kind", KindFilter), query.number(request, "bin", 0, 9)
    return _View(
        grader,
        number,
        kind=kind,
        bin=bar if kind in (None, "scored") else None,  # errors are in no bar, and the form sends it
        low=query.decimal(request, "low"),
        high=query.decimal(request, "high"),
        text=request.query_params.get("text", "")[: tables.TEXT_LENGTH],
        sort=query.one_of(request, "sort", Sort) or "index",
    )


async def _table(request: Request, who: Visit, batch: Batch, view: _View) -> TablePage:
    answer = await tables.read_table(
        request,
        who.services,
        who.project,
        batch.id,
        view.grader,
        kind=cast(KindFilter, view.kind),
        low=view.low,
        high=view.high,
        bin=view.bin,
        text=view.text or None,
        sort=cast(Sort, view.sort),
        page_number=view.number,
        limit=_PAGE,
    )
    return msgspec.json.decode(answer.body, type=TablePage)


async def _errors(request: Request, who: Visit, batch: Batch, view: _View) -> ErrorGroups:
    answer = await tables.read_errors(request, who.services, who.project, batch.id, view.grader)
    return msgspec.json.decode(answer.body, type=ErrorGroups)


async def progress(request: Request) -> Response:
    """Show the progress of a batch, polled by its page. The page is reloaded once the batch has ended or is deleted."""
    who = await visit(request)
    try:
        batch = await _batch(request, who)
    except NotFound:
        return HTMLResponse("", headers=_MADE_ANEW)  # after an error, the page would stay and poll again
    if batch.state in ENDED:
        return HTMLResponse("", headers=_MADE_ANEW)
    view = _view(request, batch)
    values = {"batch": batch, "is_over": False, "view": view, "grader": view.grader, **_summary(batch, view.grader)}
    pace = await _pace(request, who, batch)
    return await long_page(request, "_progress.html", visit=who, pace=pace, **values)


def _summary(batch: Batch, grader: str) -> dict[str, Any]:
    """The numbers of one grader, and its histogram."""
    summary = next((one for one in batch.summaries if one.grader == grader), None)
    return {"summary": summary, "bars": histogram.bars(summary) if summary else []}


class Pace(NamedTuple):
    """The speed of a batch, to three digits, and the remaining time in words."""

    a_second: float
    left: str


async def _pace(request: Request, who: Visit, batch: Batch) -> Pace | None:
    """The speed of a running batch. None for one that is retried: most of its outcomes are of an earlier time."""
    if batch.state != "running":
        return None
    retried_at = await who.services.read(request, who.services.store.batches.retried_at, batch.id)
    now = await who.services.read(request, clock, who.services.store.redis)
    return pace(batch, now) if retried_at is None else None


def pace(batch: Batch, now: datetime) -> Pace | None:
    """The speed of a running batch; None before its first outcome."""
    done = batch.done + batch.underway
    if batch.started_at is None or batch.finished_at is not None or not done:
        return None
    a_second = done / max((now - batch.started_at).total_seconds(), 0.001)
    return Pace(float(f"{a_second:.3g}"), duration(round((batch.total - done) / a_second)))


async def _others(
    request: Request, who: Visit, batch: Batch, view: _View, table: TablePage
) -> dict[int, dict[str, float | None]]:
    """For each thread in the table, the scores of the batch's other graders, combined and recorded scores."""
    if len(batch.graders) == 1 and not batch.recorded and not batch.weighted:
        return {}
    indices = [row.index for row in table.rows]
    return await who.services.read(request, _scores, who.services.store, batch.id, indices, view.grader)


def _scores(store: Store, batch_id: str, indices: list[int], but: str) -> dict[int, dict[str, float | None]]:
    found: dict[int, dict[str, float | None]] = {index: {} for index in indices}
    for one in outcomes_of(store, batch_id, indices):
        if one.grader != but:
            found[one.index][one.grader] = one.score
    return found


async def cancel(request: Request) -> Response:
    """Cancel a running batch."""
    who, batch = await _mine(request)
    await run_sync(who.services.store.batches.cancel, who.project, batch.id)
    return _to(who, batch.id)


async def retry(request: Request) -> Response:
    """Score the retryable outcomes again."""
    who, batch = await _mine(request)
    repeat = _repeat(request, who, await read_form(request))
    await who.services.compute(request, who.project, retried, who.services, who.project, batch.id, repeat.once)
    return _to(who, batch.id)


async def again(request: Request) -> Response:
    """Make a new batch that scores the threads of a batch with another grader, or another version."""
    who = await visit(request, "score")
    fields = await read_form(request)
    if not fields.get("grader"):
        raise invalid("name a grader: its key, or key@version")
    new = NewBatch([named(fields["grader"])], threads_of=request.path_params["batch"])
    repeat = _repeat(request, who, fields)
    made = await Arrival(who.services, who.project, who.limits, who.key.id, repeat).take_threads_of(request, new)
    return _to(who, made.id)


def _repeat(request: Request, who: Visit, fields: dict[str, str]) -> Repeat:
    """The identity of a form that a browser may send twice, from the page's token, if it has one."""
    # The token is of the page as it was sent. A browser may show that page again later, so the answer is kept for long
    # enough to repeat a request, and no longer.
    token = f"{fields['once']} {fields.get('grader', '')}" if fields.get("once") else None
    return Repeat(request, who.project, who.key, token, _REPEATED_S)


async def _mine(request: Request) -> tuple[Visit, Batch]:
    """Return a batch that the caller may change: one they created, or any if their role is manage. Raises
    ProblemError."""
    who = await visit(request, "score")
    return who, own(request, await _batch(request, who))


async def _batch(request: Request, who: Visit) -> Batch:
    get = who.services.store.batches.get
    return await who.services.read(request, get, who.project, request.path_params["batch"])


def _to(who: Visit, batch_id: str) -> Response:
    return RedirectResponse(f"{ui()}/projects/{who.project}/batches/{batch_id}", 303)
