"""`gradebox projects`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation, client_command

if TYPE_CHECKING:
    from gradebox.client.calls.access_calls import LimitOptions

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


@client_command(app)
def limits(
    invocation: Invocation,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The project.")],
    source_bytes: Annotated[int | None, typer.Option(help="Bytes of a grader's source.")] = None,
    timeout_s: Annotated[float | None, typer.Option(help="Seconds a grader may have for one completion.")] = None,
    memory_mb: Annotated[int | None, typer.Option(help="MiB that a grader may have.")] = None,
    score_threads: Annotated[int | None, typer.Option(help="Threads of a request that grades or checks.")] = None,
    score_mb: Annotated[int | None, typer.Option(help="MiB of such a request.")] = None,
    batch_threads: Annotated[int | None, typer.Option(help="Threads of a batch.")] = None,
    batch_mb: Annotated[int | None, typer.Option(help="MiB of the threads of a batch.")] = None,
    batch_graders: Annotated[int | None, typer.Option(help="Graders of a batch.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Remove the project's own limits.")] = False,
) -> None:
    """Shows the limits of a project, or changes some. A change needs a key that manages every project."""
    given: LimitOptions = {
        "source_bytes": source_bytes,
        "timeout_s": timeout_s,
        "memory_mb": memory_mb,
        "score_threads": score_threads,
        "score_mb": score_mb,
        "batch_threads": batch_threads,
        "batch_mb": batch_mb,
        "batch_graders": batch_graders,
    }
    projects = invocation.client.projects
    has_changes = any(limit is not None for limit in given.values())
    if reset and has_changes:
        raise typer.BadParameter("--reset removes all limits of the project: set others in another command")
    if reset:
        projects.reset_limits(key)
    found = projects.set_limits(key, **given) if has_changes else projects.limits(key)
    defaults = found.defaults.model_dump()
    rows = [(name, limit, defaults[name], name in found.own) for name, limit in found.limits]
    invocation.show(found, ["limit", "project", "service", "own"], rows)
