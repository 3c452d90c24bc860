"""Graders and their versions."""

import re
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec
from anyio.to_thread import run_sync
from fastapi import Header, Path, Query, Request, Response
from msgspec.structs import asdict, replace
from pydantic import TypeAdapter, ValidationError

from api.access.auth import InProject, ManagesIn
from api.access.callers import Caller
from api.http import openapi
from api.http.problems import ValidationFailed, invalid
from api.http.routers import project_router
from api.intake import bodies
from api.intake.environment import Chosen, choose, default_memory_mb
from api.intake.idempotency import Repeatable, answered_grader
from api.intake.source_upload import Key, Options, Sent, prove, receive, run_limits
from api.services import Served, Services
from gradebox.schemas import GraderRecord, Limits, Version, WeaveMapping
from models.scoring.scoring import is_of_graders
from sandbox.environments import PYTHON
from sandbox.grading.source_bytes import SourceRefused
from sandbox.limits import MEMORY_MB
from storage.errors import Conflict, KeyTaken, NotFound, VersionChanged
from storage.graders import check_threads
from storage.graders.grader_content import CUSTOM, Proved
from storage.idempotency import Once

NAME_CHARACTERS = 200
DESCRIPTION_CHARACTERS = 10_000

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
Description = Annotated[str, msgspec.Meta(max_length=DESCRIPTION_CHARACTERS)]

_GRADERS = TypeAdapter(list[GraderRecord])
_VERSIONS = TypeAdapter(list[Version])

router = project_router("graders", "/graders")


class NewVersion(Options, kw_only=True, forbid_unknown_fields=True):
    """A new version of an existing grader. Omitted fields stay unchanged; so do source, kind and config if neither a
    source nor a kind is sent.
    """

    name: Name | None = None
    description: Description | None = None


class NewGrader(NewVersion, kw_only=True, forbid_unknown_fields=True):
    """A new grader."""

    key: Key


class GraderChanges(msgspec.Struct, forbid_unknown_fields=True):
    """The fields that change without a new version. Omitted fields and None stay unchanged."""

    name: Name | None = None
    description: Description | None = None
    locked: bool | None = None
    weave: dict[str, Any] | None = None


IfMatch = Annotated[str | None, Header(description="newest version known to the client; 412 if there is a newer one")]

_IF_MATCH = re.compile(r'"?([1-9][0-9]{0,8})"?')
_ALSO = openapi.SOURCE_FILE | openapi.FORM


@router.post("", status_code=201, openapi_extra=openapi.body(NewGrader, also=_ALSO))
async def create(request: Request, services: Served, project: ManagesIn, repeat: Repeatable) -> GraderRecord:
    """Prove a source and store it as the first version of a new grader."""
    if (answered := await answered_grader(request, services, repeat)) is not None:
        return answered
    sent, new = await receive(request, NewGrader)
    return await services.grade(request, project, create_function, services, sent, new, repeat.once)


@router.put("/{key}", openapi_extra=openapi.body(NewVersion, also=_ALSO))
async def update(
    request: Request,
    services: Served,
    project: ManagesIn,
    key: str,
    repeat: Repeatable,
    if_match: IfMatch = None,
    create: Annotated[bool, Query(description="create the grader if there is none")] = False,
) -> GraderRecord:
    """Prove a source and store it as the next version. An unchanged source creates none."""
    expected = _version(if_match)
    if (answered := await answered_grader(request, services, repeat)) is not None:
        return answered
    sent, new = await receive(request, NewVersion, may_lack=True, own={"create"})
    work = partial(_put_function, must_exist=if_match is not None) if create else update_function
    return await services.grade(request, project, work, services, key, sent, new, repeat.once, expected)


def _version(if_match: str | None) -> int | None:
    """Parses `If-Match`: `3`, or `"3"` in the quotes of an entity tag. None for `*` and without the header."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _IF_MATCH.fullmatch(if_match.strip())
    if found is None:
        raise invalid(
            f"If-Match must be the number of the version that this update follows, such as 3, and not {if_match!r:.40}"
        )
    return int(found[1])


@router.get("", response_model=list[GraderRecord])
async def list_all(
    request: Request,
    services: Served,
    project: InProject,
    after: Annotated[str, Query(max_length=64, description="only graders with a later key")] = "",
) -> Response:
    """List the graders of the project, by key: all, or some megabytes and a `Link` to the next page."""
    return await services.large_answers.make(request, _list, services, project, after)


def _list(services: Services, project: str, after: str) -> Response:
    graders, has_more = services.store.graders.page(project, after)
    return _page(_GRADERS.dump_json(graders), graders[-1].key if has_more else None)


def _page(body: bytes, following: str | int | None) -> Response:
    headers = {} if following is None else {"Link": f'<?after={following}>; rel="next"'}
    return Response(body, headers=headers, media_type="application/json")


@router.get("/{key}")
def get(services: Served, project: InProject, key: str) -> GraderRecord:
    """Get one grader, with the limits and environment of its newest version."""
    return services.store.graders.get(project, key)


@router.patch("/{key}", openapi_extra=openapi.body(GraderChanges))
async def describe(request: Request, services: Served, project: ManagesIn, key: str) -> GraderRecord:
    """Change the name, the description, or the paths to the graded fields in calls of Weave; lock or unlock."""
    changes = await bodies.read_json(request, GraderChanges)
    wanted = {name: value for name, value in asdict(changes).items() if value is not None}
    if changes.weave is not None:
        wanted["weave"] = _mapping(changes.weave)
    return await run_sync(services.store.graders.describe, project, key, wanted)


def _mapping(sent: dict[str, Any]) -> WeaveMapping:
    try:
        return WeaveMapping.model_validate(sent)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise invalid(
            "`weave` has completion, prompt and metadata, each null or a path such as `output.answer`: names "
            f"separated by dots, the first one inputs, output or messages; {where} is {fault['input']!r:.100}"
        ) from error


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Delete a grader and its versions. Accepted batches keep the versions that they score with."""
    services.store.graders.delete(project, key)


@router.get("/{key}/versions", response_model=list[Version])
async def versions(
    request: Request,
    services: Served,
    project: InProject,
    key: str,
    after: Annotated[int, Query(ge=0, description="only versions with a higher number")] = 0,
) -> Response:
    """List the versions, oldest first, with their sources: all, or some megabytes and a `Link` to the next page."""
    return await services.large_answers.make(request, _versions, services, project, key, after)


def _versions(services: Services, project: str, key: str, after: int) -> Response:
    found, has_more = services.store.graders.versions(project, key, after)
    return _page(_VERSIONS.dump_json(found), found[-1].number if has_more else None)


@router.get("/{key}/versions/{number}", response_model=Version)
async def version(
    request: Request, services: Served, project: InProject, key: str, number: Annotated[int, Path(ge=1)]
) -> Response:
    """Get one version, with its source."""
    return await services.large_answers.make(request, _version_of, services, project, key, number)


def _version_of(services: Services, project: str, key: str, number: int) -> Response:
    found = services.store.graders.version(project, key, number)
    return Response(found.model_dump_json(), media_type="application/json")


@router.get("/{key}/threads", response_class=Response)
async def threads(request: Request, services: Served, project: InProject, key: str) -> Response:
    """Read the threads that the grader was proved on, as JSON lines: the last ones that were sent, as many as are
    stored.
    """
    return await services.large_answers.make(request, _threads, services, project, key)


def _threads(services: Services, project: str, key: str) -> Response:
    lines = services.store.graders.threads(project, key)
    return Response(b"".join(line + b"\n" for line in lines), media_type="application/x-ndjson")


def create_function(
    caller: Caller, services: Services, sent: Sent, new: NewGrader, once: Once | None = None
) -> GraderRecord:
    """Proves a source and stores it. Raises ProblemError if a check fails, and what storage raises."""
    graders, project = services.store.graders, caller.project
    if answered := graders.answered(once):
        return answered
    try:
        graders.check_free(project, new.key)  # an early check; `create` checks again atomically
    except Conflict:
        if answered := graders.answered(once):  # another request with the same key has finished meanwhile
            return answered
        raise
    if sent.kind == "custom":
        return graders.create(project, new.key, new.name or new.key, new.description or "", CUSTOM, once)
    environment = choose(services.store.environments, project, new.environment or "")
    proved = _proved(caller, services, sent, new, environment)
    return graders.create(project, new.key, new.name or new.key, new.description or "", proved, once)


def update_function(
    caller: Caller,
    services: Services,
    key: str,
    sent: Sent,
    new: NewVersion,
    once: Once | None = None,
    expected: int | None = None,
    stored_threads: str | None = None,
) -> GraderRecord:
    """Proves a source, or the newest version's if none was sent, and stores it as the next version. If threads were
    sent, they replace those with the digest `stored_threads`, or any if it is None. Raises as `create_function` does.
    """
    graders, project = services.store.graders, caller.project
    if answered := graders.answered(once):
        return answered
    newest = graders.runnable(project, key, within_limits=False) if sent.is_newest else graders.version(project, key)
    sent = sent.or_newest(newest)
    graders.check_update(project, key, sent.kind, expected)
    texts = {"name": new.name, "description": new.description}
    given = {name: text for name, text in texts.items() if text is not None}
    if sent.kind == "custom":
        return graders.update(project, key, CUSTOM, given, once, expected=expected)
    named = new.environment if new.environment is not None else newest.environment and newest.environment.label
    environment = choose(services.store.environments, project, named or "")
    options = Options(
        isolation=new.isolation or newest.isolation_asked,
        timeout_s=new.timeout_s or newest.timeout_s,
        memory_mb=new.memory_mb or _memory_mb(newest, environment, caller.limits),
        ask=new.ask,
    )
    kept = graders.threads(project, key)
    if sent.threads is None:
        stored_threads = check_threads.digest(kept)
    proved = _proved(caller, services, sent.or_kept(kept), options, environment)
    if sent.kind == "function" and newest.kind != "function":
        proved = proved.warned(
            f"the grader was of kind {newest.kind!r}, and this source makes a function of it: the settings of the kind "
            f"stay with version {newest.number}"
        )
    return graders.update(project, key, proved, given, once, expected, _taken(newest, sent, new), stored_threads)


def _taken(newest: Version, sent: Sent, new: NewVersion) -> dict[str, object]:
    """The fields of the newest version that were not sent, and so are those of the next one too."""
    sent_fields = {
        "isolation_asked": new.isolation,
        "timeout_s": new.timeout_s,
        "memory_mb": new.memory_mb,
        "environment": new.environment,
        **dict.fromkeys(("kind", "config", "source"), None if sent.is_newest else sent),
    }
    return {name: getattr(newest, name) for name, value in sent_fields.items() if value is None}


def _put_function(
    caller: Caller,
    services: Services,
    key: str,
    sent: Sent,
    new: NewVersion,
    once: Once | None,
    expected: int | None,
    *,
    must_exist: bool,
) -> GraderRecord:
    """As `update_function`, or as `create_function` if there is no grader with this key.

    Raises as these do, and VersionChanged if there is no grader and it `must_exist`.
    """
    try:
        services.store.graders.get(caller.project, key)
    except NotFound as error:
        if must_exist:
            raise VersionChanged(
                f"project {caller.project!r} has no grader {key!r} that If-Match could match, and nothing was saved: "
                "leave out If-Match to create it"
            ) from error
        if sent.is_newest:
            raise
        made = replace(bodies.convert({"key": key}, NewGrader), **asdict(new))
        with suppress(KeyTaken):  # meanwhile, as when each process of a training puts the same reward
            return create_function(caller, services, sent, made, once)
    return update_function(caller, services, key, sent, new, once, expected)


def _memory_mb(newest: Version, environment: Chosen | None, most: Limits) -> int:
    """The limit of the newest version, unless a grader with the default limit gets its first environment."""
    asked_nothing = newest.environment is None and newest.memory_mb == MEMORY_MB
    return default_memory_mb(environment, most) if asked_nothing else newest.memory_mb


def _proved(caller: Caller, services: Services, sent: Sent, options: Options, environment: Chosen | None) -> Proved:
    """Proves a source. Raises ProblemError with the report if a check fails."""
    limits = run_limits(options, environment, caller.limits)
    answering = services.answering(caller.project, options.ask)
    try:
        source = sent.text(caller.limits.source_bytes)
        report = prove(caller, services, sent, limits, environment, answering)
    except SourceRefused as refused:
        raise ValidationFailed(refused.report) from refused
    if not report.valid:
        raise ValidationFailed(report)
    use = environment.use if environment else None
    threads = () if sent.threads is None or sent.are_kept else sent.threads
    proved_with_stand_ins = options.ask == "stand-in" and bool(report.asks)
    waits = not (is_of_graders(sent.kind, sent.config) and answering.at_once.issuperset(report.asks))
    kind, config, pinned = sent.kind, sent.config, answering.pinned
    return Proved(source, *limits, report, use, threads, kind, config, pinned, proved_with_stand_ins, waits, PYTHON)
