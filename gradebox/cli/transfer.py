"""`gradebox graders export` and `import`: transfer graders between projects or services, as JSON lines."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.files import open_threads, opened
from gradebox.cli.grader_options import AskChoice
from gradebox.cli.graders import note_warnings
from gradebox.cli.output import as_json, fail, note, say
from gradebox.errors import ApiError

if TYPE_CHECKING:
    from gradebox.client import Client, GraderHandle
    from gradebox.client.versions import Ask
    from gradebox.schemas import Version

_LIMITS = ("isolation", "timeout_s", "memory_mb", "environment")


def export(
    invocation: Invocation,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="The graders to export; by default all.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT.jsonl", help="The file to write; - is stdout.")
    ] = Path("-"),
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Export every version, not only the newest.")
    ] = False,
) -> None:
    """Writes graders with their sources, kinds and settings, limits and test threads, a JSON line for each.

    An environment is written as its key; import uses the newest build of the environment with that key. Likewise, a
    grader that asks another one by its key asks the newest version there is at the import.
    """
    graders = invocation.client.graders
    found = [graders.get(key) for key in keys] if keys else graders.list()
    with opened(output) as out:
        for grader in _asked_first(found):
            versions = [version for version in grader.versions() if version.source]
            if not versions:
                note(f"{grader.key} is of kind {grader.kind}, has no source, and is left out")
                continue
            wanted = versions if all_versions else versions[-1:]
            out.write(json.dumps(_line(invocation.client, grader, wanted)).encode() + b"\n")


def import_(
    invocation: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="A file written by export; - is stdin.")],
    replace: Annotated[bool, typer.Option("--replace", help="If a grader exists, add the versions to it.")] = False,
    ask: AskChoice = None,
) -> None:
    """Creates graders from a file that export has written. Each version is checked again, oldest first.

    The source of a grader of a kind is written again from its settings.

    Exits 1 when a grader could not be created; the others are created all the same.
    """
    lines = list(_lines(file))
    made, failed = [], []
    for line in lines:
        try:
            grader = _make(invocation.client, line, replace, ask)
        except (ApiError, TypeError, ValueError) as error:  # ValueError: of a failed check too
            note(f"{line['key']}: {error}")
            failed.append(line["key"])
        else:
            made.append(grader)
            None if invocation.json else say(f"{grader.key}@{grader.version}")
            note_warnings(grader)
    if invocation.json:
        as_json(made)
    if failed:
        fail(f"{len(failed)} of {len(lines)} graders could not be created: {', '.join(failed)}", 1)


def _asked_first(graders: "list[GraderHandle]") -> "list[GraderHandle]":
    """Sorts the graders so that import can create each: those that its newest version asks come before it."""
    left = {grader.key: grader for grader in graders}
    ordered: list[GraderHandle] = []

    def add(key: str) -> None:
        if grader := left.pop(key, None):
            for ask in grader.asks:
                add(ask.removeprefix("grader:").partition("@")[0])
            ordered.append(grader)

    for grader in graders:
        add(grader.key)
    return ordered


def _line(client: "Client", grader: "GraderHandle", versions: "list[Version]") -> dict[str, Any]:
    told = [
        {
            "source": version.source,
            **({} if version.kind == "function" else {"kind": version.kind, "config": version.config}),
            "isolation": version.isolation_asked,
            "timeout_s": version.timeout_s,
            "memory_mb": version.memory_mb,
            "environment": version.environment.key if version.environment else None,
        }
        for version in versions
    ]
    threads = client.graders.test_threads(grader.key) if grader.test_threads else []
    return {
        "key": grader.key,
        "name": grader.name,
        "description": grader.description,
        "versions": told,
        "threads": list(threads),
        **({} if grader.weave is None else {"weave": grader.weave.model_dump()}),
    }


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file. Exits if a line is not one that export writes."""
    with open_threads(file) as lines:
        for number, text in enumerate(lines, 1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            if line is None or not _is_grader(line):
                fail(f"line {number} of {file} was not written by `gradebox graders export`", 2)
            yield line


def _is_grader(line: object) -> bool:
    if not isinstance(line, dict) or not isinstance(line.get("key"), str):
        return False
    versions = line.get("versions")
    if not isinstance(versions, list) or not versions:
        return False
    return all(isinstance(one, dict) and _is_version(one) for one in versions)


def _is_version(version: dict[str, Any]) -> bool:
    is_kind = isinstance(version.get("kind"), str) and isinstance(version.get("config"), dict)
    return isinstance(version.get("source"), str) and (is_kind or "kind" not in version)


def _make(client: "Client", line: dict[str, Any], replace: bool, ask: "Ask | None") -> "GraderHandle":
    grader: GraderHandle | None = None
    texts = {"name": line.get("name"), "description": line.get("description")}
    create = client.graders.create
    for version in line["versions"]:
        options: dict[str, Any] = {name: version.get(name) for name in _LIMITS}
        options |= {"threads": line.get("threads") or None, "ask": ask}
        made_of: dict[str, Any] = {"fn": version["source"]}
        if "kind" in version:
            made_of = {"kind": version["kind"], "config": version["config"]}
        if grader is not None or replace:  # None would keep the environment of the version before
            options["environment"] = options["environment"] or ""
        if grader is not None:
            grader = grader.update(**made_of, **options)
            continue
        make: Callable[..., GraderHandle] = create.of_kind if "kind" in version else create.function
        if replace:
            make = client.graders.put
        grader = make(key=line["key"], **made_of, **options, **texts)
    assert grader is not None
    if isinstance(mapping := line.get("weave"), dict):
        from gradebox.schemas import WeaveMapping

        client.graders.map_weave(line["key"], **{name: mapping.get(name) for name in WeaveMapping.model_fields})
    return grader
