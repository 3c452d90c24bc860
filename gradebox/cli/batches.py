"""`gradebox batches`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from gradebox.cli import outcome_table
from gradebox.cli.command import Invocation, client_command
from gradebox.cli.files import open_threads
from gradebox.cli.output import as_json, cell, errors, fail, id_text, note, say, summary, table

if TYPE_CHECKING:
    from gradebox.schemas import Batch

app = typer.Typer(help="Shows and steers batches.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The batch's id.")]


@client_command(app, "list")
def list_batches(
    invocation: Invocation,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of batches.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only batches older than this one.")] = None,
    grader: Annotated[
        str | None, typer.Option(metavar="KEY[@N]", help="Only batches scored by this grader or version.")
    ] = None,
) -> None:
    """The newest batches of the project."""
    batches = [batch.status for batch in invocation.client.batches.list(limit, before, grader)]
    has_passed_over = any(batch.not_applicable for batch in batches)
    rows = [
        (
            b.id,
            b.state,
            ", ".join(map(str, b.graders)),
            b.done,
            b.total,
            errors(b.errors),
            *[b.not_applicable] * has_passed_over,
            b.created_at,
        )
        for b in batches
    ]
    passed_over = ["not applicable"] * has_passed_over
    columns = ["id", "state", "graders", "done", "total", "errors", *passed_over, "created (UTC)"]
    invocation.show(batches, columns, rows)


@client_command(app)
def show(
    invocation: Invocation,
    batch: Id,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Add bootstrap confidence intervals, if the batch has ended.")
    ] = False,
) -> None:
    """One batch, with the summary of what is done."""
    from gradebox.cli.score import add_combined

    handle = invocation.client.batches.get(batch)
    if bootstrap:
        handle.refresh(bootstrap=True, combined=handle.status.weighted)
    else:
        add_combined(handle)
    show_batch(invocation, handle.status)


@client_command(app)
def watch(invocation: Invocation, batch: Id) -> None:
    """Shows the progress of a batch until it ends, then prints its summary."""
    from gradebox.cli.score import watch as wait

    handle = invocation.client.batches.get(batch)
    failure = wait(handle)
    show_batch(invocation, handle.status)
    if failure:
        fail(failure, 1)


@client_command(app)
def cancel(invocation: Invocation, batch: Id) -> None:
    """Stops a batch; the outcomes of its finished chunks can be read."""
    from gradebox.schemas import ENDED

    handle = invocation.client.batches.get(batch)
    if handle.state in ENDED:
        note(f"batch {batch} is already {handle.state}")
        return show_batch(invocation, handle.status)
    return show_batch(invocation, handle.cancel())


@client_command(app)
def retry(invocation: Invocation, batch: Id) -> None:
    """Scores the outcomes with retryable errors again, such as an unreachable server or a fault of the service."""
    from gradebox.schemas import ENDED

    handle = invocation.client.batches.get(batch)
    is_over = handle.state in ENDED
    now = handle.retry()
    if not is_over:
        note(f"batch {batch} is not over: nothing is scored again. Retry it after its end")
    elif now.state in ENDED:
        note(f"batch {batch} has no outcome with a retryable error: nothing is scored again")
    show_batch(invocation, now)


@client_command(app)
def keep(invocation: Invocation, batch: Id) -> None:
    """Keeps a batch beyond the usual retention time, until it is deleted."""
    show_batch(invocation, invocation.client.batches.get(batch).keep())


@client_command(app)
def unkeep(invocation: Invocation, batch: Id) -> None:
    """Stops keeping a batch: the usual retention time applies again, from now or from its end."""
    show_batch(invocation, invocation.client.batches.get(batch).keep(False))


@client_command(app)
def delete(invocation: Invocation, batch: Id) -> None:
    """Deletes a batch with its threads and outcomes."""
    invocation.client.batches.get(batch).delete()
    invocation.say({"deleted": batch}, f"deleted {batch}")


@client_command(app)
def outcomes(
    invocation: Invocation,
    batch: Id,
    after: Annotated[
        int | None, typer.Option(help="Only outcomes of threads after this index, counted from 0.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of threads.")] = None,
) -> None:
    """Prints the outcomes so far as JSON lines, in the order of the threads."""
    from gradebox.cli.score import write_outcomes

    handle = invocation.client.batches.get(batch)
    found = handle.outcomes(after, limit=limit)
    write_outcomes(found, sys.stdout.buffer)


@client_command(app)
def record(
    invocation: Invocation,
    batch: Id,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help='JSON lines such as {"id": "a", "score": 1, "reason": "why"}; - is stdin.'),
    ],
    grader: Annotated[
        str, typer.Option("--grader", metavar="KEY[@N]", help="Grader of kind custom that gets the scores.")
    ],
) -> None:
    """Records external scores, such as labels by people, beside those of the batch's graders."""
    handle = invocation.client.batches.get(batch)
    with open_threads(file) as lines:
        handle.record_lines(grader, lines)
    show_batch(invocation, handle.status)


@client_command(app, "errors")
def list_errors(
    invocation: Invocation,
    batch: Id,
    kind: Annotated[str | None, typer.Option(help="Only errors of this kind, such as exception.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of groups.")] = 20,
) -> None:
    """The errors of a batch in groups, the largest first. In a group, only numbers, ids and quoted text differ."""
    from gradebox.cli.error_counts import ErrorCounts
    from gradebox.outcome import ErrorKind
    from gradebox.schemas import ENDED

    outcome_table.check_choice("--kind", kind, get_args(ErrorKind))
    handle = invocation.client.batches.get(batch)
    counts = ErrorCounts(kind)
    for outcome in handle.outcomes():
        counts.add(outcome)
    if handle.state not in ENDED:
        note("the batch is not over: these are the errors up to the first thread that some grader has not scored")
    groups = counts.most_frequent(limit)
    left_out = counts.total - sum(group.count for group in groups)
    if invocation.json:
        return as_json({"errors": [group.as_dict() for group in groups], "left_out": left_out})
    rows = [(g.first.grader, g.kind, g.count, g.first.index, id_text(g.first.id), g.example) for g in groups]
    table(["grader", "kind", "count", "first thread", "its id", "its message"], rows)
    if left_out:
        note(f"{left_out:,} errors are in further groups: --limit shows more")
    return None


def show_batch(invocation: Invocation, batch: "Batch") -> None:
    """Prints the state of a batch and its summary."""
    if invocation.json:
        return as_json(batch)
    kept = "  kept" if batch.kept else ""
    counts = f"{cell(batch.done)} of {cell(batch.total)} outcomes  errors: {errors(batch.errors)}"
    passed_over = f"  not applicable: {cell(batch.not_applicable)}" if batch.not_applicable else ""
    underway = f"  scored in unfinished chunks: {cell(batch.underway)}" if batch.underway else ""
    say(f"{batch.id}  {batch.state}{kept}  {counts}{passed_over}{underway}")
    for server in batch.waits_for:
        note(f"waiting: {server}")
    if batch.trouble:
        note(batch.trouble)
    return summary(batch)
