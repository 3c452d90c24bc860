"""`gradebox batches feedback`"""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gradebox.cli.batches import Id
from gradebox.cli.batches import show_batch as show
from gradebox.cli.command import Invocation
from gradebox.cli.output import as_json, fail, id_text, note, table
from gradebox.cli.score import budget_of, note_errors, watch

if TYPE_CHECKING:
    from gradebox.client import BatchHandle


def feedback(
    invocation: Invocation,
    batch: Id,
    model: Annotated[str, typer.Option(metavar="KEY", help="The model that writes the feedback.")],
    on: Annotated[
        Literal["failures", "all"],
        typer.Option(help="Which outcomes: failures (too low or wrong), or all with a score."),
    ] = "failures",
    of: Annotated[Literal["completion", "judge"], typer.Option(help="What the feedback is to improve.")] = "completion",
    grader: Annotated[str | None, typer.Option(help="The grader, if the batch has several.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Lower scores are failures (1); with --labels, scores and labels from it on count as 1."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="For --of judge: another grader of the batch, or a field such as metadata.label.")
    ] = None,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Further instructions for the model.")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="Maximum cost of its asks.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=0, help="Maximum tokens of its asks.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of texts to print.")] = 20,
) -> None:
    """Asks a model what to change in completions or in their judge, as a new batch, and waits for its end."""
    given = invocation.client.batches.get(batch).feedback(
        model,
        on,
        of,
        grader=grader,
        threshold=threshold,
        labels=labels,
        instructions=instructions,
        budget=budget_of(budget_usd, budget_tokens),
    )
    if given is None:
        return note(f"batch {batch} has no outcome that needs feedback: nothing was asked")
    if failure := watch(given):
        fail(failure, 1)
    if invocation.json:
        as_json(given.status)
    else:
        _print(given, limit)
        show(invocation, given.status)
    if given.status.errors and not given.status.scored:
        fail(f"the model gave no feedback: no outcome of batch {given.id} has any", 1)
    return None


def _print(given: "BatchHandle", limit: int) -> None:
    said = (outcome for outcome in given.outcomes() if outcome.score is not None)
    rows = [(id_text(outcome.id), outcome.score, outcome.reason) for outcome in islice(said, limit)]
    table(["id", "score", "feedback"], rows)
    if given.status.scored > limit:
        note(f"{given.status.scored - limit:,} more: gradebox batches outcomes {given.id}")
    if given.status.errors:
        note_errors(given)
