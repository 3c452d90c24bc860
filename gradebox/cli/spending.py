"""`gradebox spending`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.output import SPENT
from gradebox.number_text import money_text

if TYPE_CHECKING:
    from gradebox.schemas import Spending


def spending(
    invocation: Invocation,
    period: Annotated[
        str, typer.Option(help="A day or month in UTC, such as 2026-11-23 or 2026-11; by default all time.")
    ] = "",
) -> None:
    """The spending of graders' asks, by model, endpoint and grader."""
    found = invocation.client.spending(period)
    invocation.show(
        found, ["of", *SPENT], [_row(name, spent) for name, spent in [*found.by.items(), ("all", found.total)]]
    )


def _row(name: str, spent: "Spending") -> tuple[object, ...]:
    shown = "checks and tests" if name == "grader:" else name  # they belong to no grader
    return shown, spent.asks, spent.kept, spent.input_tokens, spent.output_tokens, money_text(spent.usd)
