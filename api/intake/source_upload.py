"""Receives a source in any form, and proves it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from fastapi import Request
from starlette.datastructures import UploadFile

from api.access.callers import Caller
from api.http.problems import invalid
from api.intake import bodies, json_cut, python_version, source_json
from api.intake.environment import Chosen, default_memory_mb
from api.services import Services
from gradebox.judges.kind_source import settled, source_of
from gradebox.schemas import KEY_PATTERN, Isolation, Kind, Limits, Report, Version, WrittenKind
from models.scoring.validation_asks import ProjectAnswering
from runtime import slow_numbers
from sandbox.errors import Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading.source_bytes import from_bytes
from sandbox.limits import MAX_MEMORY_MB, MAX_TIMEOUT_S, MIN_MEMORY_MB, TIMEOUT_S
from worker.environments.package_isolation import settle

FILE_BYTES = bodies.MIB  # more than any source, so that one that is too long still gets a report
CONFIG_BYTES = 256 * 1024
_FEWER = "send fewer, for the test run"

Key = Annotated[
    str, msgspec.Meta(pattern=KEY_PATTERN, description="1 to 64 of a-z 0-9 . _ - with a letter or digit first")
]
Timeout = Annotated[
    float,
    msgspec.Meta(gt=0, le=MAX_TIMEOUT_S, description="seconds for one completion; no setting raises it"),
]
VersionNumber = Annotated[int, msgspec.Meta(ge=1)]
Memory = Annotated[
    int,
    msgspec.Meta(ge=MIN_MEMORY_MB, le=MAX_MEMORY_MB, description="MiB for the grader; no setting raises it"),
]


_T = TypeVar("_T", bound="Options")


class Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The options of a source. Seconds and MiB; None means the default, or the value of the previous version.

    `source` and `threads` are included because they are fields of a JSON body. `Sent` has them for each form.
    """

    source: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    threads: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    isolation: Literal["auto", "batch", "completion"] | None = None
    timeout_s: Timeout | None = None
    memory_mb: Memory | None = None
    environment: Annotated[str, msgspec.Meta(max_length=80)] | None = None
    """`key` or `key@build`; empty for none."""
    ask: Literal["real", "stand-in"] | None = None
    """Whether generated minimal replies answer the grader's asks in the test run."""
    kind: Kind | None = None
    """The kind whose `config` generates the source, which is then not sent; a `function` has a source and no config, a
    `custom` neither."""
    config: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


@dataclass(frozen=True)
class Sent:
    """A source as it was sent: the bytes of a file, or a JSON string that is not decoded yet."""

    source: bytes
    is_json: bool = False
    threads: list[bytes] | None = None
    are_kept: bool = False
    """Whether the threads are those stored with the grader."""
    kind: Kind = "function"
    config: dict[str, Any] | None = None
    """The settings that the source was generated from, if it is not a function."""
    is_newest: bool = False
    """Whether no source was sent, and the newest version's is to be used."""
    python: str = ""
    """The client's version of Python, such as `3.13`; empty if it is unknown."""

    def or_newest(self, newest: Version) -> "Sent":
        """Returns a copy with the source, kind and settings of a grader's newest version, if no source was sent."""
        if not self.is_newest:
            return self
        source = newest.source.encode("utf-8", "surrogatepass")
        return replace(self, source=source, is_json=False, kind=newest.kind, config=newest.config)

    def or_kept(self, kept: list[bytes]) -> "Sent":
        """Returns a copy with the threads stored with a grader, if none were sent."""
        return self if self.threads is not None or not kept else replace(self, threads=kept, are_kept=True)

    def text(self, most_bytes: int) -> str:
        """The decoded source, of at most `most_bytes`. Raises SourceRefused."""
        return (source_json.from_json if self.is_json else from_bytes)(self.source, most_bytes)


async def receive(
    request: Request, options: type[_T], *, may_lack: bool = False, own: Collection[str] = ()
) -> tuple[Sent, _T]:
    """Reads a source and its options from a JSON body, a form with a file, or a source file with a query. With
    `may_lack`, a JSON body may omit the source, and the grader's newest version is used. `own` names the parameters of
    the query that are no options.

    Raises ProblemError if the request has none of these forms, or exceeds a limit.
    """
    query = {name: value for name, value in request.query_params.items() if name not in own}
    sent, found = await _receive(request, options, may_lack, query)
    return replace(sent, python=python_version.of_client(request.headers.get("User-Agent", ""))), found


async def _receive(request: Request, options: type[_T], may_lack: bool, query: Mapping[str, str]) -> tuple[Sent, _T]:
    kind = bodies.media_type(request)
    if query and kind in ("application/json", "multipart/form-data"):
        names = ", ".join(sorted(query))
        raise invalid(f"only a source file has its options in the query: send {names} in the body")
    services: Services = request.app.state.services
    limits = services.limits_for(request)
    too_long = f"a source is at most {limits.source_bytes} bytes long"
    if kind == "application/json":
        body = await bodies.read(request, limits.score_bytes)
        bounds = limits.score_threads, services.line_bytes
        return await bodies.worked_on(len(body), _read, body, options, bounds, may_lack)
    if kind in ("text/x-python", "text/plain"):
        file = await bodies.read(request, FILE_BYTES, too_long)
        return Sent(file), _of_function(bodies.convert(query, options))
    if kind == "multipart/form-data":
        return await _form(request, options, too_long)
    raise bodies.unsupported(request, "application/json", "text/x-python", "multipart/form-data")


def _read(body: bytes, options: type[_T], bounds: tuple[int, int], may_lack: bool) -> tuple[Sent, _T]:
    """`bounds`: the most threads, and the most bytes of one."""
    found = bodies.parse(body, options)
    source, config, threads = bytes(found.source), bytes(found.config), bytes(found.threads)
    lines = None if threads in (b"", b"null") else bodies.lines(threads, *bounds, _FEWER)
    if found.kind == "custom":
        return _custom(found), found
    if found.kind is not None and found.kind != "function":
        if source not in (b"", b"null"):
            raise invalid(
                "a source and a kind were sent: the source of a kind is generated from its `config`, so send only one"
            )
        return replace(written(found.kind, _config(config)), threads=lines), found
    if may_lack and source in (b"", b"null") and found.kind is None:
        return Sent(b"", threads=lines, is_newest=True), _of_function(found)
    if not source:
        raise invalid("there is no source: send it as the member `source`, or a `kind` with its `config`")
    return Sent(source, is_json=True, threads=lines), _of_function(found)


def _custom(options: Options) -> Sent:
    """A grader whose scores are recorded: there is nothing to run."""
    ran = (options.isolation, options.timeout_s, options.memory_mb, options.environment, options.ask)
    sent = (bytes(options.source), bytes(options.config), bytes(options.threads))
    if any(one is not None for one in ran) or any(one not in (b"", b"null", b"{}") for one in sent):
        raise invalid(
            "a grader of kind `custom` is not run, its scores are recorded: send a `key`, and optionally a `name` and "
            "a `description`"
        )
    return Sent(b"", kind="custom", config={})


def written(kind: WrittenKind, config: Mapping[str, Any]) -> Sent:
    """Generates the source of a grader of this kind. Raises ProblemError if the config is invalid for the kind."""
    try:
        text = source_of(kind, config)
        return Sent(text.encode("utf-8", "surrogatepass"), kind=kind, config=settled(kind, config))
    except ValueError as error:
        raise invalid(str(error)) from error


def _config(raw: bytes) -> dict[str, Any]:
    if len(raw) > CONFIG_BYTES:
        raise invalid(f"config is {len(raw)} bytes long, and may have {CONFIG_BYTES}: shorten it")
    if slow_numbers.are_many(raw):
        raise invalid(f"`config` is not read: {slow_numbers.REASON}")
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = json_cut.fault(raw, error)
        raise invalid(f"`config` must be an object with the settings of the kind: {why}") from error


def _of_function(options: _T) -> _T:
    if options.kind not in (None, "function") or bytes(options.config) not in (b"", b"null"):
        raise invalid("`kind` and `config` belong together, in a JSON body, in place of a source")
    return options


async def _form(request: Request, options: type[_T], too_long: str) -> tuple[Sent, _T]:
    form = await bodies.form(request, await bodies.read(request, FILE_BYTES, too_long))
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
    if file is not None:
        source = await file.read()
    elif "source" in fields:
        source = fields.pop("source").encode()
    else:
        raise invalid("there is no source in the form: send it as a file, or as the field `source`")
    for name, times in Counter(name for name, _ in form.multi_items()).items():
        if times > 1:
            raise invalid(f"the form has {name!r:.100} {times} times, and one value counts: send it once")
    if unread := fields.keys() & {field.name for field in msgspec.structs.fields(options) if field.type is msgspec.Raw}:
        names = ", ".join(sorted(unread))
        raise invalid(f"a form has one source and options, and this has {names} too: send a JSON body with {names}")
    return Sent(source), _of_function(bodies.convert(fields, options))


def run_limits(options: Options, environment: Chosen | None, most: Limits) -> tuple[Isolation, float, int]:
    """The isolation, the timeout and the memory limit in the options, with the default in place of each None, or what
    the project has if that is less. Raises ProblemError if the options ask for more than the project has.
    """
    for name, asked, limit in (
        ("timeout_s", options.timeout_s, most.timeout_s),
        ("memory_mb", options.memory_mb, most.memory_mb),
    ):
        if asked is not None and asked > limit:
            raise invalid(
                f"`{name}` is {asked:g}, and a grader of this project may have at most {limit:g}: ask for less, or "
                "have the operator raise this limit of the project"
            )
    memory_mb = options.memory_mb or default_memory_mb(environment, most)
    return options.isolation or "auto", options.timeout_s or min(TIMEOUT_S, most.timeout_s), memory_mb


def prove(
    caller: Caller,
    services: Services,
    sent: Sent,
    limits: tuple[Isolation, float, int],
    environment: Chosen | None,
    answering: ProjectAnswering,
) -> Report:
    """Runs the five checks within the result of `run_limits`. Raises SourceRefused if the source cannot be run at all,
    and what `Pool.prove` raises.
    """
    isolation, timeout_s, memory_mb = limits
    resolved = settle(isolation, environment.packages if environment else ())
    text = sent.text(caller.limits.source_bytes)
    content = environment.use.sha256 if environment else ""
    source = GraderSource(text, resolved.isolation, timeout_s, memory_mb, project=caller.project, environment=content)
    try:
        report = resolved.warn(services.pool.prove(source, sent.threads, caller.should_stop, answering))
        report = report.model_copy(update={"warnings": [*report.warnings, *answering.warnings.values()]})
        return python_version.warn(report, text, sent.python)
    except Stopped as stopped:
        raise caller.why("the checks did not finish") from stopped
