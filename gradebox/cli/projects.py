"""`gradebox projects`"""

from typing import Annotated

import typer

from gradebox.cli.command import Invocation, client_command

app = typer.Typer(help="Manages projects, which separate graders and batches.", no_args_is_help=True)


@client_command(app)
def create(
    invocation: Invocation,
    key: Annotated[str, typer.Argument(metavar="KEY", help="1-64 of a-z 0-9 . _ - for the project.")],
) -> None:
    """Makes a project. Needs a key that manages every project."""
    project = invocation.client.projects.create(key)
    invocation.say(project, f"created {project.key}")


@client_command(app, "list")
def list_projects(invocation: Invocation) -> None:
    """The projects that the API key covers."""
    projects = invocation.client.projects.list()
    rows = [(project.key, project.created_at) for project in projects]
    invocation.show(projects, ["key", "created (UTC)"], rows)
