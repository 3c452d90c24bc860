"""Options that the commands for models and endpoints share."""

import os
from typing import Annotated

import typer

KeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable with the API key to send; empty removes the key."),
]
Timeout = Annotated[float | None, typer.Option(min=1, max=600, help="Seconds for one complete reply; 120 by default.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Simultaneous requests; 16 by default.")]
Requests = Annotated[int | None, typer.Option(min=0, help="Maximum number of requests a minute; 0 removes the limit.")]


def secret(variable: str | None) -> str | None:
    """The API key from an environment variable. It is never an argument, since all users of a machine can see those."""
    if not variable:
        return variable
    value = os.environ.get(variable)
    if not value:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint="--key-env")
    return value
