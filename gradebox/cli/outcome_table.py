"""`gradebox batches table`"""

from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.output import as_json, cell, id_text, note, say, table

if TYPE_CHECKING:
    from gradebox.schemas.outcome_table import ErrorGroups, TablePage, TableRow

_SHOWN = 100  # characters of a text that are printed


def show_table(
    invocation: Invocation,
    batch: Annotated[str, typer.Argument(metavar="ID", help="The batch's id.")],
    grader: Annotated[str | None, typer.Option(help="The grader, if the batch has several.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Show the errors, grouped by message.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="scored, not_applicable, error, or a kind of error such as exception.")
    ] = None,
    low: Annotated[float | None, typer.Option(help="Only scores of at least this.")] = None,
    high: Annotated[float | None, typer.Option(help="Only scores of at most this.")] = None,
    histogram_bin: Annotated[
        int | None, typer.Option("--bin", min=0, max=9, help="Only scores in this bin of the summary's histogram.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Only outcomes with this text in a reason, a message or a completion.")
    ] = None,
    sort: Annotated[str, typer.Option(help="index, score or run_ms; a leading - reverses the order.")] = "index",
    page: Annotated[int, typer.Option(min=1, help="Which page.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Rows per page.")] = 50,
) -> None:
    """A page of the outcomes of a batch, sorted and filtered once it is over; or its errors in groups."""
    import msgspec

    from gradebox.schemas.outcome_table import KindFilter, Sort

    check_choice("--kind", kind, tuple(one for part in get_args(KindFilter) for one in get_args(part)))
    check_choice("--sort", sort, get_args(Sort))
    handle = invocation.client.batches.get(batch)
    if errors:
        if (kind, low, high, histogram_bin, text, sort, page, limit) != (*[None] * 5, "index", 1, 50):
            raise typer.BadParameter("can only be combined with --grader", param_hint="--errors")
        groups = handle.error_groups(grader)
        return as_json(msgspec.to_builtins(groups)) if invocation.json else _show_errors(groups)
    asked: dict[str, Any] = {"kind": kind, "low": low, "high": high, "bin": histogram_bin, "text": text, "sort": sort}
    found = handle.table(grader, page=page, limit=limit, **asked)
    return as_json(msgspec.to_builtins(found)) if invocation.json else _show_page(found)


def check_choice(option: str, value: str | None, known: tuple[str, ...]) -> None:
    """Raises BadParameter if the value of an option is none of the known ones."""
    if value is not None and value not in known:
        raise typer.BadParameter(f"is one of {', '.join(known)}", param_hint=option)


def _show_page(found: "TablePage") -> None:
    rows = [
        (one.index, id_text(one.id), one.score, _short(one.completion), _message(one), one.run_ms) for one in found.rows
    ]
    table(["index", "id", "score", "completion", "reason or error", "ms"], rows)
    pages = -(-found.total // found.limit)
    if not found.is_over:
        note("the batch is not over: these are its outcomes so far")
    say(f"{found.grader}: page {cell(found.page)} of {cell(pages)}, {cell(found.total)} outcomes")
    if found.is_cut:
        note(f"only {cell(found.searched)} outcomes were searched for the text: filter by kind or score")


def _message(row: "TableRow") -> str | None:
    if row.error is not None:
        return f"{row.error.kind}: {_short(row.error.message)}"
    if row.not_applicable is not None:
        return f"not applicable: {_short(row.not_applicable)}"
    return _short(row.reason)


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _show_errors(found: "ErrorGroups") -> None:
    rows = [
        (kind.kind, one.count, one.line, _short(one.message), _short(one.example), ", ".join(map(str, one.indices)))
        for kind in found.kinds
        for one in kind.groups
    ]
    table(["kind", "count", "line", "message", "the first", "threads"], rows)
    say(f"{found.grader}: {cell(found.total)} errors")
    for kind in found.kinds:
        if kind.others:
            note(f"{cell(kind.others)} errors of kind {kind.kind} are in further groups")
