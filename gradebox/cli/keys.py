"""`gradebox keys`"""

from typing import Annotated, Literal

import typer

from gradebox.cli.command import Command, Invocation, client_command
from gradebox.cli.output import as_json, fail, note, say
from gradebox.cli.server import DataDir

Role = Literal["read", "score", "manage"]  # a copy from the schemas, whose import would slow down `--help`

app = typer.Typer(help="Manages API keys, by project. Needs a key that manages every project.", no_args_is_help=True)


@client_command(app)
def create(
    invocation: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")],
    covers: Annotated[
        list[str] | None,
        typer.Option("--covers", metavar="PROJECT", help="A project that the key covers; may be repeated. [--project]"),
    ] = None,
    every_project: Annotated[bool, typer.Option("--every-project", help="The key covers every project.")] = False,
    role: Annotated[
        Role,
        typer.Option("--role", help="What the key may do there; manage with --every-project includes managing keys."),
    ] = "manage",
) -> None:
    """Creates an API key and prints it. It is not shown again."""
    if every_project and covers:
        raise typer.BadParameter("covers more than --covers: leave one of them out", param_hint="--every-project")
    key = invocation.client.keys.create(name, ["*"] if every_project else covers or [invocation.client.project], role)
    if invocation.json:
        return as_json(key)
    note(f"key {key.id} for {', '.join(key.projects)} in role {key.role}; it is not shown again:")
    return say(key.secret or "")


@client_command(app, "list")
def list_keys(invocation: Invocation) -> None:
    """The API keys, without their secrets."""
    keys = invocation.client.keys.list()
    rows = [(key.id, key.name, ", ".join(key.projects), key.role, key.revoked, key.created_at) for key in keys]
    invocation.show(keys, ["id", "name", "projects", "role", "revoked", "created (UTC)"], rows)


@client_command(app)
def whoami(invocation: Invocation) -> None:
    """The API key that these commands use: its id, projects and role. Works with any key."""
    key = invocation.client.me()
    row = (key.id, key.name, ", ".join(key.projects), key.role)
    invocation.show(key, ["id", "name", "projects", "role"], [row])


@client_command(app)
def rotate(invocation: Invocation, key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]) -> None:
    """Replaces an API key by one with the same rights, prints the new key this once, and revokes the old one."""
    from gradebox import key_file
    from gradebox.discovery import key_folders

    new = invocation.client.keys.rotate(key)
    if invocation.json:
        as_json(new)
    else:
        note(f"key {new.id} replaces {key}; it is not shown again:")
        say(new.secret or "")
    for folder in key_folders(invocation.client.url):  # last: if a file cannot be written, the key is not lost
        if new.secret and (path := key_file.replace(folder, key, new.secret)):
            note(f"{path} holds the new key")


@app.command(cls=Command)
def recover(data_dir: DataDir = None) -> None:
    """Makes a key for every project if all keys are lost: on the service's machine, as owner of its data folder.

    The service reads the new key at its next start, and stores it in the file `api-key`. This command needs no key.
    """
    from gradebox import key_file
    from gradebox.discovery import data_dir as usual_data_dir

    folder = data_dir or usual_data_dir()
    if not folder.is_dir():
        fail(f"there is no data folder {folder}: name the service's with --data-dir or GRADEBOX_DATA_DIR", 2)
    key_file.write(folder / key_file.NEW_KEY_FILE, key_file.new_token())
    say(f"restart the service: from then on {folder / key_file.KEY_FILE} holds a new key for every project")


@client_command(app)
def revoke(invocation: Invocation, key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]) -> None:
    """Revokes an API key: it is no longer valid."""
    invocation.client.keys.revoke(key)
    invocation.say({"revoked": key}, f"revoked {key}")
