"""Options that the commands for models and endpoints share."""

import os
from typing import Annotated

import typer

KeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable with the API key to send; empty removes the key."),
]
HeaderEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HEADER=NAME",
        help="A header to send, and the environment variable with its value; repeatable. Replaces all headers; empty "
        "removes them.",
    ),
]
Timeout = Annotated[float | None, typer.Option(min=1, max=600, help="Seconds for one complete reply; 120 by default.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Simultaneous requests; 16 by default.")]
Requests = Annotated[int | None, typer.Option(min=0, help="Maximum number of requests a minute; 0 removes the limit.")]


def secret(variable: str | None) -> str | None:
    """The API key from an environment variable. It is never an argument, since all users of a machine can see those."""
    return _value_of(variable, "--key-env") if variable else variable


def headers(named: list[str] | None) -> dict[str, str] | None:
    """Headers with their values from environment variables, as the API key."""
    if not named:
        return None
    if named == [""]:
        return {}
    found: dict[str, str] = {}
    for header in named:
        name, _, variable = header.partition("=")
        if not name or not variable or name in found:
            raise typer.BadParameter("write X-API-Key=NAME_OF_VARIABLE, each header once", param_hint="--header-env")
        found[name] = _value_of(variable, "--header-env")
    return found


def _value_of(variable: str, option: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise typer.BadParameter(f"the environment variable {variable} is not set", param_hint=option)
    return value
