"""`gradebox batches feedback`"""

from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.batches import Id
from gradebox.cli.batches import show_batch as show
from gradebox.cli.command import Invocation, client_command
from gradebox.cli.output import as_json, fail, note, table
from gradebox.cli.score import budget_of, note_errors, watch

if TYPE_CHECKING:
    from gradebox.client import BatchHandle


class On(StrEnum):
    """The values of `--on`."""

    failures = "failures"
    all = "all"


class Of(StrEnum):
    """The values of `--of`."""

    completion = "completion"
    judge = "judge"


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    client_command(app)(feedback)


def feedback(
    invocation: Invocation,
    batch: Id,
    model: Annotated[str, typer.Option(metavar="KEY", help="The model that is asked.")],
    on: Annotated[On, typer.Option(help="Which outcomes: too low or wrong, or all that have a score.")] = On.failures,
    of: Annotated[Of, typer.Option(help="What is to be changed.")] = Of.completion,
    grader: Annotated[str | None, typer.Option(help="Which grader, where the batch has several.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="A failure scores less (1); with --labels, both count as 1 from there on.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="For --of judge: another grader of the batch, or a field: metadata.label.")
    ] = None,
    instructions: Annotated[str | None, typer.Option(metavar="TEXT", help="What else the model is told.")] = None,
    budget_cost: Annotated[float | None, typer.Option(min=0, help="What its asks may cost.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=0, help="The same in tokens.")] = None,
    budget_currency: Annotated[str, typer.Option(help="Of --budget-cost.")] = "USD",
    limit: Annotated[int, typer.Option(min=0, help="How many texts are printed.")] = 20,
) -> None:
    """Asks a model what to change in completions or in their judge, as a new batch, and waits for its end."""
    given = invocation.client.batches.get(batch).feedback(
        model,
        on.value,
        of.value,
        grader=grader,
        threshold=threshold,
        labels=labels,
        instructions=instructions,
        budget=budget_of(budget_cost, budget_tokens, budget_currency),
    )
    if given is None:
        return note(f"there is nothing to say of batch {batch}: nothing was asked")
    if failure := watch(given):
        fail(failure, 1)
    if invocation.json:
        return as_json(given.status)
    _print(given, limit)
    return show(invocation, given.status)


def _print(given: "BatchHandle", limit: int) -> None:
    said = (outcome for outcome in given.outcomes() if outcome.score is not None)
    table(["id", "score", "feedback"], [(outcome.id, outcome.score, outcome.reason) for outcome in islice(said, limit)])
    if given.status.scored > limit:
        note(f"{given.status.scored - limit:,} more: gradebox batches outcomes {given.id}")
    if given.status.errors:
        note_errors(given)
