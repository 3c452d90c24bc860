"""`gradebox audit`"""

from typing import Annotated

import typer

from gradebox.cli.command import Invocation


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
    columns = ["id", "at (UTC)", "key", "action", "object", "detail", "address", "request"]
    rows = [(one.id, one.at, one.key, one.action, one.object, one.detail, one.address, one.request_id) for one in lines]
    invocation.show(lines, columns, rows)
