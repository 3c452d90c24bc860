"""`gradebox spending`"""

from typing import Annotated

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.output import SPENT


def spending(
    invocation: Invocation,
    period: Annotated[
        str, typer.Option(help="A day or month in UTC, such as 2026-11-23 or 2026-11; by default all time.")
    ] = "",
) -> None:
    """The spending of graders' asks, by model, endpoint and grader."""
    found = invocation.client.spending(period)
    named = {"grader:": "checks and tests"}  # they belong to no grader
    rows = [(named.get(of, of), *spent.cells) for of, spent in [*found.by.items(), ("all", found.total)]]
    invocation.show(found, ["of", *SPENT], rows)
