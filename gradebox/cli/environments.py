"""`gradebox environments`"""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation, Yes, client_command, confirm_deletion
from gradebox.cli.output import as_json, cell, say, table

if TYPE_CHECKING:
    from gradebox.schemas import Environment, EnvironmentBuild

app = typer.Typer(help="Manages environments: packages that graders may import.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The environment's key.")]
Packages = Annotated[
    list[str] | None, typer.Argument(metavar="[PACKAGE]...", help="Packages, such as sympy==1.14 or math-verify.")
]
RequirementsFile = Annotated[
    Path | None,
    typer.Option(
        "--requirements",
        "-r",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A file with one package per line.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", exists=True, help="Data beside the packages: a folder, or a zip file."),
]
Detach = Annotated[bool, typer.Option("--detach", help="Do not wait until it is built.")]


_COMMENT = re.compile(r"(^|\s)#.*")  # as pip reads a file of requirements: a URL may have a # of its own
_NOTHING = "name packages, such as sympy==1.14, a file of them with -r FILE, or --data FOLDER"


@client_command(app)
def create(
    invocation: Invocation,
    key: Key,
    packages: Packages = None,
    file: RequirementsFile = None,
    data: Data = None,
    detach: Detach = False,
) -> None:
    """Creates an environment, and waits until it is built."""
    wanted = packages_of(packages, file)
    if not wanted and data is None:
        raise typer.BadParameter(_NOTHING)
    _report(invocation, invocation.client.environments.create(key, wanted, data=data, wait=not detach))


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    packages: Packages = None,
    file: RequirementsFile = None,
    data: Data = None,
    no_packages: Annotated[bool, typer.Option("--no-packages", help="The new build has only data.")] = False,
    no_data: Annotated[bool, typer.Option("--no-data", help="The new build has only packages.")] = False,
    detach: Detach = False,
) -> None:
    """Makes a new build with other packages or data; the rest stays. Graders keep the build that they use."""
    wanted = packages_of(packages, file)
    if (wanted and no_packages) or (data and no_data):
        raise typer.BadParameter("name packages or --no-packages, and --data or --no-data: not both")
    if not (wanted or data or no_packages or no_data):
        raise typer.BadParameter(_NOTHING)
    given = wanted if wanted or no_packages else None
    beside = "" if no_data else data
    _report(invocation, invocation.client.environments.update(key, given, data=beside, wait=not detach))


@client_command(app, "list")
def list_environments(invocation: Invocation) -> None:
    """The environments of the project."""
    environments = invocation.client.environments.list()
    rows = [(e.key, str(e.build), e.state, e.newest and _asked(e.newest), e.updated_at) for e in environments]
    invocation.show(environments, ["key", "build", "state", "asked for", "updated (UTC)"], rows)


@client_command(app)
def show(invocation: Invocation, key: Key) -> None:
    """One environment with its builds, and the packages of the newest."""
    environment = invocation.client.environments.get(key)
    if invocation.json:
        return as_json(environment)
    rows = [
        (str(b.number), b.state, b.python, len(b.lock), f"{b.size_bytes / 2**20:.0f}", _asked(b))
        for b in environment.builds
    ]
    table(["build", "state", "Python", "locked", "MiB", "asked for"], rows)
    newest = environment.newest
    if newest is not None:
        for package in newest.lock:
            say(f"{package.name}=={package.version}")
        if newest.log:
            say(newest.log)
        if newest.reason:
            say(f"{environment.key}@{newest.number} could not be built: {newest.reason}")
    return None


@client_command(app)
def delete(invocation: Invocation, key: Key, yes: Yes = False) -> None:
    """Deletes an environment that no grader uses."""
    confirm_deletion(f"{key} with all of its builds", yes)
    invocation.client.environments.delete(key)
    invocation.say({"deleted": key}, f"deleted {key}")


def packages_of(packages: list[str] | None, file: Path | None) -> list[str]:
    """The packages in the arguments and the file, without the file's comments and empty lines. Raises BadParameter."""
    wanted = list(packages or [])
    if file is not None:
        lines = (_COMMENT.sub("", line).strip() for line in _text(file).splitlines())
        wanted += [line for line in lines if line]
    return wanted


def _text(file: Path) -> str:
    """The text of a file of requirements. In PowerShell, `pip freeze > FILE` writes UTF-16, which pip reads too."""
    data = file.read_bytes()
    try:
        return data.decode("utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is not UTF-8: save it as UTF-8", param_hint="-r") from error


def _report(invocation: Invocation, environment: "Environment") -> None:
    if invocation.json:
        return as_json(environment)
    newest = environment.newest
    label = f"{environment.key}@{environment.build}"
    if newest is None or environment.state != "ready":
        return say(f"{label} is being built: gradebox environments show {environment.key}")
    size = cell(newest.size_bytes // 2**20)
    packages = "1 package" if len(newest.lock) == 1 else f"{len(newest.lock)} packages"
    data = ", with data" if newest.data else ""
    return say(f"{label} is ready: {packages}{data}, {size} MiB, Python {newest.python}")


def _asked(build: "EnvironmentBuild") -> str:
    """The packages, and the first 12 digits of the data's SHA-256."""
    return ", ".join([*build.packages, *([f"data {build.data[:12]}"] if build.data else [])])
