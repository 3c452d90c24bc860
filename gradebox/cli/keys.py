"""`gradebox keys`"""

from typing import Annotated, Literal

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.output import as_json, note, say, table

Role = Literal["read", "score", "manage"]  # as in the schemas, which take too long to import for `--help`

app = typer.Typer(help="Manages API keys, by project. Needs a key that manages every project.", no_args_is_help=True)


@client_command(app)
def create(
    invocation: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")],
    covers: Annotated[
        list[str] | None,
        typer.Option("--covers", metavar="PROJECT", help="A project that the key covers; may be repeated. [--project]"),
    ] = None,
    every_project: Annotated[bool, typer.Option("--every-project", help="It covers every project.")] = False,
    role: Annotated[
        Role, typer.Option("--role", help="What it may do there; manage for every project manages keys too.")
    ] = "manage",
) -> None:
    """Makes an API key and prints it, this once."""
    key = invocation.client.keys.create(name, ["*"] if every_project else covers or [invocation.client.project], role)
    if invocation.json:
        return as_json(key)
    note(f"key {key.id} for {', '.join(key.projects)} in role {key.role}; it is not shown again:")
    return say(key.secret or "")


@client_command(app, "list")
def list_keys(invocation: Invocation) -> None:
    """The API keys, without their secrets."""
    keys = invocation.client.keys.list()
    if invocation.json:
        return as_json(keys)
    rows = [(key.id, key.name, ", ".join(key.projects), key.role, key.revoked, key.created_at) for key in keys]
    return table(["id", "name", "projects", "role", "revoked", "created (UTC)"], rows)


@client_command(app)
def revoke(invocation: Invocation, key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]) -> None:
    """Revokes an API key: from now on it opens nothing."""
    invocation.client.keys.revoke(key)
    as_json({"revoked": key}) if invocation.json else say(f"revoked {key}")
