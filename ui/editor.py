"""The editor of a grader: its page, the checks while typing, and saving."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.access.callers import Caller
from api.http.problems import ProblemError, ValidationFailed, invalid, problem_of, too_large
from api.intake import bodies
from api.intake.source_upload import CONFIG_BYTES, Options, Sent, written
from api.routes.graders import NewGrader, NewVersion, create_function, update_function
from api.routes.score import score_lines
from api.routes.validate import report_on
from api.services import Services
from gradebox.judges.kind_source import forms_of
from gradebox.limits import MEMORY_MB, TIMEOUT_S
from gradebox.outcome import Outcome
from gradebox.schemas import Environment, GraderRecord, Report, Version, WrittenKind
from runtime import slow_numbers
from sandbox.errors import SandboxError
from storage.errors import Conflict, NotFound, NotRunnable, VersionChanged
from storage.graders import check_threads
from ui import query, samples
from ui.examples import EXAMPLES
from ui.forms import read_form
from ui.graders import why_read_only
from ui.row_page import samples as taken_along
from ui.templates import long_page, rendered, root_path, ui
from ui.visits import Visit, visit

_BEGINNINGS: dict[str, dict[str, Any]] = {
    "binary_judge": {"criteria": "The answer is polite.", "judge_model": ""},
    "judge": {"criterion": "Is the answer polite?", "judge_model": ""},
    "checks": {"checks": [{"check": "contains", "text": "4"}]},
}
"""Initial settings, for kinds that need more than a model."""
_QUICK_S = 1.0  # timeout per completion while typing, so that an endless loop is reported soon


async def new(request: Request) -> Response:
    """Show the editor with a grader that is not saved yet."""
    who = await visit(request)
    named = request.query_params.get("example", EXAMPLES[0].name)
    example = next((one for one in EXAMPLES if one.name == named), EXAMPLES[0])
    place = request.query_params.get("sample")
    taken = await who.services.read(request, taken_along, who.services, who.project, place) if place else ""
    kind = query.one_of(request, "kind", WrittenKind)
    models, environments = await who.services.read(request, _suggested, who.services, who.project)
    config = _BEGINNINGS.get(kind, {"judge_model": ""}) if kind else None
    if config is not None and "judge_model" in config:
        config = {**config, "judge_model": next(iter(models), "")}
    return await long_page(
        request,
        "editor.html",
        visit=who,
        here="graders",
        grader=None,
        version=None,
        key="" if "example" not in request.query_params else example.name,
        draft=f"{who.project}/new" + (f"-{kind}" if kind else ""),
        source="" if kind else example.source,
        kind=kind or "",
        settings=forms_of(kind) if kind else [],
        models=models,
        environments=environments,
        config=None if config is None else json.dumps(config, indent=2),
        samples=taken or example.samples,
        stored_samples="",
        are_long=False,
        isolation="auto",
        timeout_s=f"{min(TIMEOUT_S, who.limits.timeout_s):g}",
        memory_mb=min(MEMORY_MB, who.limits.memory_mb),
        environment="",
        why_read_only=why_read_only(None, None, who.key),
        url=str(request.base_url).rstrip("/").removesuffix("/ui") + root_path.get(),
    )


async def show(request: Request) -> Response:
    """Show the editor with a version of a grader."""
    who = await visit(request)
    key, number = request.path_params["key"], _number(request.query_params.get("version"))
    grader, version, threads, digest = await who.services.read(request, _read, who.services, who.project, key, number)
    are_long = threads is None
    if place := request.query_params.get("sample"):
        threads = await who.services.read(request, taken_along, who.services, who.project, place) + (threads or "")
    models, environments = await who.services.read(request, _suggested, who.services, who.project)
    return await long_page(
        request,
        "editor.html",
        visit=who,
        here="graders",
        grader=grader,
        version=version,
        key=key,
        draft=_draft(who.project, grader.key, version.kind, version.number),
        source=version.source,
        kind=version.kind,
        settings=forms_of(version.kind) if version.config and version.kind in get_args(WrittenKind) else [],
        models=models,
        environments=environments,
        config=None if not version.config else json.dumps(version.config, indent=2, ensure_ascii=False),
        samples=threads or "",
        stored_samples=digest,
        are_long=are_long,
        isolation=version.isolation_asked,
        timeout_s=f"{version.timeout_s or TIMEOUT_S:.15g}",
        memory_mb=version.memory_mb or MEMORY_MB,
        environment=version.environment.label if version.environment else "",
        why_read_only=why_read_only(grader, version, who.key),
        url=str(request.base_url).rstrip("/").removesuffix("/ui") + root_path.get(),
    )


def _suggested(services: Services, project: str) -> tuple[list[str], list[Environment]]:
    """The keys of the project's models, and its environments."""
    store = services.store
    return [model.key for model in store.models.all(project)], store.environments.all(project)


def _read(
    services: Services, project: str, key: str, number: int | None
) -> tuple[GraderRecord, Version, str | None, str]:
    """The grader, the version, the grader's test threads, None if these are too long for a page, and their digest."""
    graders = services.store.graders
    lines = graders.threads(project, key)
    threads = b"\n".join(lines)
    shown = threads.decode("utf-8", "replace") if len(threads) <= samples.SAMPLES_SHOWN else None
    return graders.get(project, key), graders.version(project, key, number), shown, check_threads.digest(lines)


async def check(request: Request) -> Response:
    """Run the checks on the editor's content; with `full`, with the grader's own timeout and compared to the saved
    version.
    """
    who = await visit(request, "score")
    fields = await read_form(request, who.limits.score_bytes)
    is_full = request.query_params.get("full") == "true"
    try:
        sent = await _sent(fields, who)
        options = _options(fields, Options)
        if not is_full:  # stand-ins answer asks: this runs at each pause in typing, and models may cost money
            seconds = min(options.timeout_s or TIMEOUT_S, _QUICK_S, who.limits.timeout_s)
            options = msgspec.structs.replace(options, timeout_s=seconds, ask="stand-in")
        saved = fields.get("grader", ""), _number(fields.get("version")) if is_full else None
        checked = await who.services.grade(request, who.project, _checked, who.services, sent, options, *saved)
    except (ProblemError, NotFound, Conflict, SandboxError) as error:  # in place of the report of an earlier text
        return HTMLResponse(rendered("_fault.html", detail=problem_of(error).detail))
    made = _generated(sent) if sent.kind != "function" else None
    return await _shown(request, *checked, saved[1], is_quick=not is_full, made=made)


def _generated(sent: Sent) -> str:
    """The source that was generated from settings, also if it is longer than a source may be."""
    return sent.source.decode("utf-8", "replace")


def _checked(
    caller: Caller, services: Services, sent: Sent, options: Options, key: str, number: int | None
) -> tuple[Report, list[Outcome] | None]:
    if key:
        sent = sent.or_kept(services.store.graders.threads(caller.project, key))
    report = report_on(caller, services, sent, options)
    if not (number and report.outcomes and sent.threads):
        return report, None
    try:
        return report, score_lines(caller, services, key, number, sent.threads)[1]
    except NotRunnable:  # above a limit of the project, which the editor's content may no longer be
        return report, None


async def _shown(
    request: Request,
    report: Report,
    saved: list[Outcome] | None,
    number: int | None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    *,
    is_quick: bool,
    made: str | None = None,
) -> Response:
    """Render a report. `made` is the source that was generated from settings, None if the source was typed."""
    failed = report.failed
    marks = [] if failed is None else [_mark(failed.line, failed.column, "error", failed.message)]
    marks += [_mark(place.line, None, "warning", place.message) for place in report.places]
    reported = json.dumps([mark for mark in marks if mark["line"]])
    values = {"report": report, "marks": reported, "saved": saved, "saved_version": number, "made": made}
    return await long_page(request, "_report.html", status, headers, is_quick=is_quick, **values)


def _mark(line: int | None, column: int | None, severity: str, message: str) -> dict[str, Any]:
    return {"line": line, "column": column, "severity": severity, "message": message}


async def keep(request: Request) -> Response:
    """Save the editor's content as a version, or as a new grader."""
    who = await visit(request, "manage")
    fields = await read_form(request, who.limits.score_bytes)
    if fields.get("are_long"):  # the page lacks the stored samples, and the ones on it are for tests
        fields["samples"] = ""
    try:
        sent = await _sent(fields, who)
        if not (key := fields.get("grader", "")):
            created = _options(fields, NewGrader, key=fields.get("key", ""))
            grader = await who.services.grade(request, who.project, create_function, who.services, sent, created)
            there = f"{ui()}/projects/{who.project}/graders/{grader.key}"
            return HTMLResponse("", headers={"HX-Redirect": there, "HX-Trigger": _kept(who.project, grader)})
        stored = fields.get("stored_samples", "")
        if sent.threads is not None:
            await _check_samples(request, who, key, sent.threads, stored)
        began = _number(fields.get("version"))
        changes = _options(fields, NewVersion)
        update = partial(update_function, expected=began, stored_threads=stored)
        grader = await who.services.grade(request, who.project, update, who.services, key, sent, changes)
    except VersionChanged:
        theirs = await who.services.read(request, who.services.store.graders.version, who.project, key)
        if _is(theirs, sent, changes):  # it was saved before, and the response was lost
            grader = await who.services.read(request, who.services.store.graders.get, who.project, key)
            return _said("Saved", who.project, grader)
        headers = {"HX-Retarget": "dialog", "HX-Reswap": "innerHTML"}
        mine = fields.get("source", "") if sent.kind == "function" else _generated(sent)  # the page's may be of before
        shown = {"theirs": theirs, "theirs_key": key, "mine": mine, "began": began}
        return await long_page(request, "_conflict.html", 412, headers, visit=who, **shown)
    except ValidationFailed as error:
        return await _shown(request, error.report, None, None, 422, {"HX-Retarget": "#report"}, is_quick=False)
    said = "Already saved" if grader.version == began else "Saved"
    return _said(said, who.project, grader, None if sent.threads is None else check_threads.digest(sent.threads))


async def _check_samples(request: Request, who: Visit, key: str, mine: Sequence[bytes], began: str) -> None:
    """Raise ProblemError if others than `began`, the digest of those that the page showed, were stored meanwhile."""
    theirs = check_threads.digest(
        await who.services.read(request, who.services.store.graders.threads, who.project, key)
    )
    if theirs not in (began, check_threads.digest(mine)):
        raise ProblemError(
            409,
            "conflict",
            "other samples were stored with this grader since the page was opened, and nothing was saved. Reload the "
            "page: yours stay as a draft, saving them replaces the others, and discarding the draft shows the others",
        )


def _is(version: Version, sent: Sent, options: NewVersion) -> bool:
    """Whether a version equals the sent content."""
    asked = (options.isolation, options.timeout_s, options.memory_mb, options.environment)
    environment = version.environment.label if version.environment else ""
    has = (version.isolation_asked, version.timeout_s, version.memory_mb, environment)
    return asked == has and (version.kind, version.source.encode("utf-8", "surrogatepass")) == (sent.kind, sent.source)


def _said(said: str, project: str, grader: GraderRecord, stored_samples: str | None = None) -> Response:
    headers = {"HX-Trigger": _kept(project, grader, stored_samples)}
    return HTMLResponse(rendered("_kept.html", said=said, number=grader.version), headers=headers)


def _kept(project: str, grader: GraderRecord, stored_samples: str | None = None) -> str:
    draft = _draft(project, grader.key, grader.kind, grader.version)
    return json.dumps({"kept": {"version": grader.version, "draft": draft, "samples": stored_samples}})


def _draft(project: str, key: str, kind: str, number: int) -> str:
    """The key of a draft in the browser's storage. A page shows drafts of older versions too, but only of its own kind:
    their text is a source, or settings.
    """
    return f"{project}/{key}@{number}" if kind == "function" else f"{project}/{key}/{kind}@{number}"


async def _sent(fields: dict[str, str], who: Visit) -> Sent:
    bounds = who.services.line_bytes, who.limits.score_threads
    return await bodies.worked_on(sum(map(len, fields.values())), _read_fields, fields, *bounds)


def _read_fields(fields: dict[str, str], longest: int, most: int) -> Sent:
    threads = samples.lines_of(fields.get("samples", ""), longest, most)
    kind, text = fields.get("kind", ""), fields.get("config")
    if text is not None:
        if kind not in get_args(WrittenKind):
            raise invalid(f"{kind!r:.40} is not a kind of grader")
        return replace(written(cast("WrittenKind", kind), _settings(text)), threads=threads)
    return Sent(fields.get("source", "").encode("utf-8", "surrogatepass"), threads=threads)


def _settings(text: str) -> dict[str, Any]:
    if len(text) > CONFIG_BYTES:
        raise too_large(f"the settings are {len(text)} characters long, and may have {CONFIG_BYTES}: shorten them")
    data = text.encode("utf-8", "surrogatepass")
    if slow_numbers.are_many(data):
        raise invalid(f"the settings are not read: {slow_numbers.REASON}")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the settings are not a JSON object: {error}") from error


def _options(fields: dict[str, str], kind: type[Any], **more: str) -> Any:
    """The run options of a source, from the form. Raises ProblemError."""
    names = ("isolation", "timeout_s", "memory_mb", "environment")
    given = {name: fields[name] for name in names if fields.get(name)} | {"environment": fields.get("environment", "")}
    return bodies.convert({**given, **more}, kind)


def _number(text: str | None) -> int | None:
    """A version number; None if none is given. Raises ProblemError."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise invalid(f"{text!r:.40} is not a version: write a number, as in ?version=3")
    return int(text)
