"""`gradebox audit`"""

from typing import Annotated

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.output import as_json, table


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    client_command(app)(audit)


def audit(
    invocation: Invocation,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number of changes.")
    ] = 100,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="Only changes older than this one.")
    ] = None,
    service: Annotated[
        bool, typer.Option("--service", help="Show changes of API keys and projects instead of --project's.")
    ] = False,
) -> None:
    """Who changed what in the project, the newest change first."""
    lines = invocation.client.audit(limit, before, service=service)
    if invocation.json:
        return as_json(lines)
    columns = ["id", "at (UTC)", "key", "action", "object", "detail", "address", "request"]
    rows = [(one.id, one.at, one.key, one.action, one.object, one.detail, one.address, one.request_id) for one in lines]
    return table(columns, rows)
