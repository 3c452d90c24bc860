"""`gradebox graders`"""

from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from gradebox.cli.command import Invocation, Yes, client_command, confirm_deletion
from gradebox.cli.files import (
    ColumnChoice,
    ContractChoice,
    FunctionChoice,
    ThreadsFile,
    read_threads,
    source_or_exit,
)
from gradebox.cli.grader_options import (
    AskChoice,
    ConfigFile,
    Criteria,
    Description,
    EndpointKey,
    EnvironmentKey,
    IsolationChoice,
    Key,
    KindChoice,
    MemoryMb,
    ModelKey,
    Name,
    OptionalFile,
    TimeoutS,
)
from gradebox.cli.kind_settings import named_for, settings_given
from gradebox.cli.output import as_json, fail, note, say, table, verbatim

if TYPE_CHECKING:
    from gradebox.client.thread_line import Thread
    from gradebox.client.versions import GraderOptions
    from gradebox.schemas import GraderRecord, Version, WrittenKind

app = typer.Typer(help="Manages graders.", no_args_is_help=True)


@client_command(app, "list")
def list_graders(invocation: Invocation) -> None:
    """The graders of the project."""
    graders = invocation.client.graders.list()
    rows = [
        (
            f"{g.key}@{g.version}",
            f"{g.kind}{', locked' if g.locked else ''}",
            f"{g.updated_at:%Y-%m-%d}",
            " ".join(g.description.split()),
        )
        for g in graders
    ]
    invocation.show(graders, ["grader", "kind", "updated", "description"], rows)


@client_command(app)
def show(
    invocation: Invocation,
    key: Annotated[str, typer.Argument(metavar="KEY[@VERSION]", help="The grader's key.")],
    source: Annotated[bool, typer.Option(help="Print the source: of the newest version if none is named.")] = False,
) -> None:
    """One grader and its versions."""
    from gradebox.client.grader_names import split_version

    try:
        key, number = split_version(key)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if source:
        return verbatim(_versions(invocation, key, number)[-1].source)
    grader, versions = invocation.client.graders.get(key), _versions(invocation, key, number)
    if invocation.json:
        return as_json({"grader": grader, "versions": versions})
    _describe(grader)
    if grader.kind == "custom":
        return say(f"its scores are recorded from outside: gradebox batches record BATCH FILE --grader {grader.key}")
    rows = [
        (
            str(v.number),
            v.sha256[:12],
            v.isolation,
            v.timeout_s,
            v.memory_mb,
            v.environment and v.environment.label,
            v.created_at,
        )
        for v in versions
    ]
    columns = ["version", "sha256", "isolation", "timeout (s)", "memory (MiB)", "environment", "created (UTC)"]
    return table(columns, rows)


@client_command(app)
def create(
    invocation: Invocation,
    key: Key,
    file: OptionalFile = None,
    kind: KindChoice = None,
    config: ConfigFile = None,
    criteria: Criteria = None,
    model: ModelKey = None,
    endpoint: EndpointKey = None,
    name: Name = None,
    description: Description = None,
    isolation: IsolationChoice = None,
    timeout_s: TimeoutS = None,
    memory_mb: MemoryMb = None,
    threads: ThreadsFile = None,
    column: ColumnChoice = None,
    environment: EnvironmentKey = None,
    ask: AskChoice = None,
    contract: ContractChoice = "gradebox",
    function: FunctionChoice = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="If the grader exists, create a new version of it.")
    ] = False,
) -> None:
    """Checks a grader and saves it as its first version: the source in FILE, or a --kind, which needs no source."""
    tried_on = read_threads(threads, column)
    options: GraderOptions = {
        "name": name,
        "description": description,
        "isolation": isolation,
        "timeout_s": timeout_s,
        "memory_mb": memory_mb,
        "threads": tried_on,
        "environment": environment,
        "ask": ask,
    }
    settings = settings_given(config, criteria, model, endpoint)
    if kind is not None:
        if file is not None or replace:
            raise typer.BadParameter("--kind replaces a source: leave out FILE and --replace")
        grader = _create_of_kind(invocation, key, kind, settings, options)
    elif file is None or config is not None or settings:
        raise typer.BadParameter("name the FILE of a source; or a --kind, with its --config or its own options")
    else:
        keep = invocation.client.graders.put if replace else invocation.client.graders.create.function
        grader = keep(key=key, fn=source_or_exit(file, contract, function), **options)
    _report(invocation, grader, "kept" if replace else "created")
    _note_proof(grader, tried_on)


@client_command(app)
def update(
    invocation: Invocation,
    key: Key,
    file: OptionalFile = None,
    kind: KindChoice = None,
    config: ConfigFile = None,
    criteria: Criteria = None,
    model: ModelKey = None,
    endpoint: EndpointKey = None,
    name: Name = None,
    description: Description = None,
    isolation: IsolationChoice = None,
    timeout_s: TimeoutS = None,
    memory_mb: MemoryMb = None,
    threads: ThreadsFile = None,
    column: ColumnChoice = None,
    environment: EnvironmentKey = None,
    ask: AskChoice = None,
    contract: ContractChoice = "gradebox",
    function: FunctionChoice = None,
    if_version: Annotated[
        int | None,
        typer.Option(min=1, help="The newest version that you know; the update is refused if there is a newer one."),
    ] = None,
) -> None:
    """Gives a grader a new version, a name or a description.

    Everything that is not given stays the same, including the source, kind and settings. A FILE turns a grader of a
    kind into a function. --config and the other options change only the settings that they contain.
    """
    settings = settings_given(config, criteria, model, endpoint)
    has_settings = kind is not None or config is not None or bool(settings)
    if file is not None and has_settings:
        raise typer.BadParameter("a FILE is the source of a function: name it, or the settings of a kind")
    of_version = (file, isolation, timeout_s, memory_mb, threads, environment, ask)
    has_version = has_settings or any(part is not None for part in of_version)
    if if_version is not None and not has_version:
        raise typer.BadParameter("--if-version is for a new version: a name or a description belongs to none")
    new_kind, new_config = _changed_settings(invocation, key, kind, settings) if has_settings else (None, None)
    tried_on = read_threads(threads, column)
    grader = invocation.client.graders.update(
        key,
        fn=source_or_exit(file, contract, function) if file else None,
        kind=new_kind,
        config=new_config,
        name=name,
        description=description,
        isolation=isolation,
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        threads=tried_on,
        environment=environment,
        ask=ask,
        if_version=if_version,
    )
    _report(invocation, grader, "updated")
    if has_version:
        _note_proof(grader, tried_on)


@client_command(app)
def diff(
    invocation: Invocation,
    key: Key,
    old: Annotated[int | None, typer.Argument(metavar="OLD", help="A version; the one before NEW if none.")] = None,
    new: Annotated[int | None, typer.Argument(metavar="NEW", help="A version; the newest if none.")] = None,
) -> None:
    """The changes between two versions of a grader: of its settings, and of the source as a unified diff."""
    from difflib import unified_diff

    from gradebox.schemas import setting_text

    after = _versions(invocation, key, new)[-1]
    before = _versions(invocation, key, old if old is not None else max(1, after.number - 1))[-1]
    names = f"{key}@{before.number}", f"{key}@{after.number}"
    lines = unified_diff(before.source.splitlines(), after.source.splitlines(), *names, lineterm="")
    text = "\n".join(lines)
    changes = before.changes(after)
    if invocation.json:
        settings = {name: {"old": old, "new": new} for name, (old, new) in changes.items()}
        return as_json({"old": before.number, "new": after.number, "settings": settings, "diff": text})
    for name, pair in changes.items():
        say(f"{name}: {' -> '.join(map(setting_text, pair))}")
    return say(text) if text else note(f"the sources of {names[0]} and {names[1]} are equal")


@client_command(app)
def delete(invocation: Invocation, key: Key, yes: Yes = False) -> None:
    """Deletes a grader and its versions."""
    confirm_deletion(f"{key} with all of its versions", yes)
    invocation.client.graders.delete(key)
    invocation.say({"deleted": key}, f"deleted {key}")


@client_command(app)
def lock(invocation: Invocation, key: Key) -> None:
    """Protects a grader against changes and deletion."""
    _report(invocation, invocation.client.graders.lock(key), "locked")


@client_command(app)
def unlock(invocation: Invocation, key: Key) -> None:
    """Allows changes and deletion of a grader again."""
    _report(invocation, invocation.client.graders.lock(key, locked=False), "unlocked")


@client_command(app)
def weave(
    invocation: Invocation,
    key: Key,
    completion: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Path of the completion, such as output.answer; by default the output, if it is a text or a message.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Path of the prompt, such as inputs.question; by default inputs.messages, if present."
        ),
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="PATH", help="Path of an object with the metadata; by default the inputs.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the current settings.")] = False,
) -> None:
    """Sets where calls of Weave, which a RemoteScorer sends, hold the parts of a thread; or shows it."""
    graders = invocation.client.graders
    grader = graders.get(key)
    given = {"completion": completion, "prompt": prompt, "metadata": metadata}
    wanted = {part: path for part, path in given.items() if path is not None}
    if wanted or clear:
        before = grader.weave.model_dump() if grader.weave and not clear else {}
        grader = graders.map_weave(key, **{**before, **wanted})
    if invocation.json:
        return as_json(grader)
    return _say_mapping(grader)


def _say_mapping(grader: "GraderRecord") -> None:
    from gradebox.schemas import WeaveMapping

    paths = (grader.weave or WeaveMapping()).model_dump()
    places = (f"{part} from {path}" if path else f"{part} by default" for part, path in paths.items())
    say(f"calls of Weave: {', '.join(places)}")


def _versions(invocation: Invocation, key: str, number: int | None) -> "list[Version]":
    """All versions, or the one with this number. Exits if it does not exist."""
    versions = invocation.client.graders.versions(key)
    found = [version for version in versions if number in (None, version.number)]
    if not found:
        fail(f"grader {key!r} has no version {number}: it has {versions[0].number} to {versions[-1].number}", 1)
    return found


def _create_of_kind(
    invocation: Invocation, key: str, kind: str, config: dict[str, Any], options: "GraderOptions"
) -> "GraderRecord":
    from gradebox.judges.kind_source import settled

    create = invocation.client.graders.create
    if kind == "custom":
        given = {name for name, value in options.items() if value is not None}
        if others := sorted(config.keys() | given - {"name", "description"}):
            raise typer.BadParameter(f"a grader of kind custom is not run: leave {', '.join(others)} out")
        return create.custom(key=key, name=options["name"], description=options["description"])
    try:
        config = settled(kind, named_for(kind, config))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return create.of_kind(key=key, kind=cast("WrittenKind", kind), config=config, **options)


def _changed_settings(
    invocation: Invocation, key: str, kind: str | None, given: dict[str, Any]
) -> "tuple[WrittenKind, dict[str, Any]]":
    """The new kind of a grader, and its settings: the current ones if the kind is unchanged, and the given ones.

    Raises:
        typer.BadParameter: the new kind has no settings.
    """
    newest = _versions(invocation, key, None)[-1]
    wanted = kind or newest.kind
    from gradebox.schemas import WrittenKind

    if wanted not in get_args(WrittenKind):
        raise typer.BadParameter(f"{key} is of kind {newest.kind}, and has no settings: name the new --kind")
    kept = newest.config if wanted == newest.kind else None
    return cast("WrittenKind", wanted), (kept or {}) | named_for(wanted, given)


def _report(invocation: Invocation, grader: "GraderRecord", what: str) -> None:
    isolation = "" if grader.kind == "custom" else f" (isolation: {grader.isolation})"
    invocation.say(grader, f"{what} {grader.key}@{grader.version}{isolation}")


def note_warnings(grader: "GraderRecord") -> None:
    """Prints the warnings of the checks on stderr."""
    for warning in grader.warnings:
        note(f"warning: {grader.key}@{grader.version}: {warning}")


def _note_proof(grader: "GraderRecord", tried_on: "list[Thread] | None") -> None:
    note_warnings(grader)
    if tried_on is not None and grader.test_threads < len(tried_on):
        note(
            f"the first {grader.test_threads:,} of the {len(tried_on):,} threads are stored with the grader: the rest "
            f"is too large"
        )


def _describe(grader: "GraderRecord") -> None:
    kind = f"  ({grader.kind})" if grader.kind != "function" else ""
    name = f"  {grader.name}" if grader.name != grader.key else ""
    say(f"{grader.key}@{grader.version}{name}{kind}{'  (locked)' if grader.locked else ''}")
    if grader.description:
        say(grader.description)
    if grader.groups:
        say("takes groups of threads, and gives each a score")
    if grader.weave:
        _say_mapping(grader)
    if grader.test_threads:
        say(f"test threads, which later proofs use: {grader.test_threads:,}")
