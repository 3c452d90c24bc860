"""`gradebox graders`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.files import Contract, ContractChoice, GraderFile, ThreadsFile, read_source, read_threads
from gradebox.cli.output import as_json, fail, say, table

if TYPE_CHECKING:
    from gradebox.schemas import Grader

app = typer.Typer(help="Manages graders.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The grader's key.")]
Name = Annotated[str | None, typer.Option(help="A name for people to read.")]
Description = Annotated[str | None, typer.Option(help="What the grader looks for.")]
Isolation = Literal["auto", "batch", "completion"]  # as in the schemas, which take too long to import for `--help`
IsolationChoice = Annotated[Isolation | None, typer.Option("--isolation", help="Between completions.")]
TimeoutS = Annotated[float | None, typer.Option("--timeout-s", help="Seconds for one completion.")]
MemoryMb = Annotated[int | None, typer.Option("--memory-mb", help="MiB for the grader.")]


@client_command(app, "list")
def list_graders(invocation: Invocation) -> None:
    """The graders of the project."""
    graders = invocation.client.graders.list()
    if invocation.json:
        return as_json(graders)
    rows = [(g.key, g.kind, str(g.version), g.locked, g.isolation, g.updated_at, g.description) for g in graders]
    return table(["key", "kind", "version", "locked", "isolation", "updated", "description"], rows)


@client_command(app)
def show(
    invocation: Invocation,
    key: Key,
    source: Annotated[bool, typer.Option(help="Print the newest version's source.")] = False,
) -> None:
    """One grader and its versions; of one that is only kept, its config."""
    if source:
        return typer.echo(invocation.client.graders.versions(key)[-1].source, nl=False)
    grader, versions = invocation.client.graders.get(key), invocation.client.graders.versions(key)
    if invocation.json:
        return as_json({"grader": grader, "versions": versions})
    _describe(grader)
    if grader.kind != "function":
        return as_json(versions[-1].config or {})
    rows = [(str(v.number), v.sha256[:12], v.isolation, v.timeout_s, v.memory_mb, v.created_at) for v in versions]
    return table(["version", "sha256", "isolation", "timeout (s)", "memory (MiB)", "created"], rows)


@client_command(app)
def create(
    invocation: Invocation,
    key: Key,
    file: GraderFile,
    name: Name = None,
    description: Description = None,
    isolation: IsolationChoice = None,
    timeout_s: TimeoutS = None,
    memory_mb: MemoryMb = None,
    threads: ThreadsFile = None,
    contract: ContractChoice = "gradebox",
) -> None:
    """Proves a grader and keeps it as its first version."""
    grader = invocation.client.graders.create.function(
        key=key,
        fn=_source(file, contract),
        name=name,
        description=description,
        isolation=isolation,
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        threads=read_threads(threads) if threads else None,
    )
    _report(invocation, grader, "created")


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", exists=True, dir_okay=False, help="The new version, if there is one."),
    ] = None,
    name: Name = None,
    description: Description = None,
    isolation: IsolationChoice = None,
    timeout_s: TimeoutS = None,
    memory_mb: MemoryMb = None,
    threads: ThreadsFile = None,
    contract: ContractChoice = "gradebox",
) -> None:
    """Gives a grader a new version, a name or a description."""
    if file is None and any(option is not None for option in (isolation, timeout_s, memory_mb, threads)):
        options = "--isolation, --timeout-s, --memory-mb and --threads"
        raise typer.BadParameter(f"{options} belong to a version: name its FILE too")
    grader = invocation.client.graders.update(
        key,
        fn=_source(file, contract) if file else None,
        name=name,
        description=description,
        isolation=isolation,
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        threads=read_threads(threads) if threads else None,
    )
    _report(invocation, grader, "updated")


@client_command(app)
def delete(invocation: Invocation, key: Key) -> None:
    """Deletes a grader and its versions."""
    invocation.client.graders.delete(key)
    as_json({"deleted": key}) if invocation.json else say(f"deleted {key}")


@client_command(app)
def lock(invocation: Invocation, key: Key) -> None:
    """Keeps a grader from being changed or deleted."""
    _report(invocation, invocation.client.graders.lock(key), "locked")


@client_command(app)
def unlock(invocation: Invocation, key: Key) -> None:
    """Lets a grader be changed and deleted again."""
    _report(invocation, invocation.client.graders.lock(key, locked=False), "unlocked")


def _source(file: Path, contract: Contract) -> str:
    try:
        return read_source(file, contract)
    except ValueError as error:
        fail(str(error), 1)


def _report(invocation: Invocation, grader: "Grader", what: str) -> None:
    as_json(grader) if invocation.json else say(f"{what} {grader.key}@{grader.version} (isolation: {grader.isolation})")


def _describe(grader: "Grader") -> None:
    kind = f"  ({grader.kind}: kept, cannot be run yet)" if grader.kind != "function" else ""
    say(f"{grader.key}@{grader.version}  {grader.name}{kind}{'  (locked)' if grader.locked else ''}")
    if grader.description:
        say(grader.description)
