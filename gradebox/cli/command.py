"""The class of all commands, and the options of client commands: service, key, project, and JSON output."""

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand, TyperOption

from gradebox.cli.output import as_json, say, table

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gradebox.client import Client

P = ParamSpec("P")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation on a terminal.")]


class Command(TyperCommand):
    """A command that refuses numbers that are not finite, and an option with two values, unless it takes several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments. Raises UsageError."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            single = [one for one in given if isinstance(one, TyperOption) and not (one.is_flag or one.multiple)]
            for number, option in enumerate(single):
                if option in single[:number]:
                    ctx.fail(f"{max(option.opts, key=len)} is given twice, and takes one value: leave one out")
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # Pydantic's, for a choice that there is not
            raise
        for name, value in ctx.params.items():
            if isinstance(value, float) and not isfinite(value):
                ctx.fail(f"--{name.replace('_', '-')} is {value}, and must be a finite number")
        return rest


@dataclass(frozen=True)
class Invocation:
    """The client of a command, and whether it prints JSON."""

    client: "Client"
    json: bool

    def show(
        self,
        value: "BaseModel | Sequence[BaseModel] | dict[str, object]",
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
    ) -> None:
        """Prints the value as JSON, or the rows as a table."""
        as_json(value) if self.json else table(columns, rows)

    def say(self, value: "BaseModel | dict[str, object]", text: str) -> None:
        """Prints the value as JSON, or the text."""
        as_json(value) if self.json else say(text)


def _shared(
    *,
    url: Annotated[
        str | None, typer.Option("--url", help="The service. [GRADEBOX_URL, or http://127.0.0.1:8000]")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", help="The API key. [GRADEBOX_API_KEY, or that of a service on this machine]"),
    ] = None,
    project: Annotated[
        str,
        typer.Option(
            "--project",
            envvar="GRADEBOX_PROJECT",
            show_envvar=False,
            show_default=False,
            help="The project. [GRADEBOX_PROJECT, or default]",
        ),
    ] = "default",
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> Invocation:
    from gradebox.client import Client

    return Invocation(Client(url, api_key, project), json)


def confirm_deletion(what: str, yes: bool) -> None:
    """Asks for confirmation on a terminal, and ends the command if the answer is no."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"delete {what}?", abort=True, err=True)


def client_command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[Concatenate[Invocation, P], None]], Callable[Concatenate[Invocation, P], None]]:
    """Adds a command that uses the service: the shared options replace the first parameter of its function."""
    shared = inspect.signature(_shared).parameters

    def add(function: Callable[Concatenate[Invocation, P], None]) -> Callable[Concatenate[Invocation, P], None]:
        own = list(inspect.signature(function).parameters.values())[1:]

        def run(**arguments: Any) -> None:
            invocation = _shared(**{option: arguments.pop(option) for option in shared})
            with invocation.client:
                function(invocation, **arguments)  # type: ignore[call-arg]  # typer passes arguments by name

        parameters = [*own, *shared.values()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__doc__ = function.__doc__
        run.__name__ = function.__name__
        app.command(name, cls=Command)(run)
        return function

    return add
