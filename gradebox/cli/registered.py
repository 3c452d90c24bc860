"""What the commands of models and of endpoints have in common."""

import os
import sys
from typing import Annotated

import typer

KeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable with the API key to send; empty removes the key."),
]
Timeout = Annotated[float | None, typer.Option(min=1, max=600, help="Seconds for one whole reply; 120 by default.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Requests at once; 16 by default.")]
Requests = Annotated[int | None, typer.Option(min=0, help="At most so many a minute; 0 takes the limit away.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")]


def secret(variable: str | None) -> str | None:
    """The API key. It is never an argument: every user of a machine sees those."""
    if not variable:
        return variable
    value = os.environ.get(variable)
    if not value:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint="--key-env")
    return value


def confirm_deletion(key: str, yes: bool) -> None:
    """Asks on a terminal, and ends the command where the answer is no."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"delete {key} with its API key?", abort=True, err=True)
