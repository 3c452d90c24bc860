"""The requests of the client: one function for each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec
from pydantic import BaseModel, TypeAdapter

from gradebox.client.call import Call, Params, encode, nothing
from gradebox.client.line_readers import read_threads
from gradebox.client.threads import Thread, Threads, each_of, to_line
from gradebox.client.warned_answers import noted_agreement, noted_comparison, proved_grader
from gradebox.errors import GradeboxError
from gradebox.outcome import Outcome
from gradebox.schemas import (
    ApiKey,
    AuditLine,
    Batch,
    BatchBudget,
    EndpointTrial,
    Environment,
    EnvironmentData,
    GraderRecord,
    Isolation,
    ModelDefaults,
    ModelTrial,
    Price,
    Project,
    ProjectBudget,
    ProjectEndpoint,
    ProjectModel,
    ProjectSpending,
    Report,
    Role,
    SignInLink,
    Version,
)
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Comparison
from gradebox.schemas.outcome_table import ErrorGroups, KindFilter, Sort, TablePage

T = TypeVar("T", bound=BaseModel)

# How long the service may take:
PROOF_S = 240.0  # for the five checks: a sandbox, the import, and the test run twice
DATA_S = 60.0  # to inspect a zip file, including the wait for other requests
_MODEL_WAIT_S = 60.0  # to wait for other requests before the test of a model or endpoint
ASK_S = 600.0  # for one ask of a grader: the longest `timeout_s` of a model
COPY_S = 600.0  # to copy the threads of a batch, possibly gigabytes
STATISTICS_S = 120.0  # for statistics over outcomes, including the wait for other requests
COMPLETION_S = 5.0  # for one completion, unless the grader has a longer timeout

OneGrader = str | GraderRecord
"""A grader: `exact-match`, `exact-match@3`, or a handle, which stands for its version."""

GraderChoice = OneGrader | Mapping[str, float] | Mapping[OneGrader, float] | Iterable[OneGrader]
"""One grader, several, or several with their weights."""

Labels = str | Mapping[str, float] | Mapping[int, float]
"""The source of the right scores: another grader of the batch or of scores recorded in it, a field such as
`metadata.label`, or scores by the ids of threads, or by their positions if they have no ids.
"""

_graders = TypeAdapter(list[GraderRecord]).validate_json
_versions = TypeAdapter(list[Version]).validate_json
_batches = TypeAdapter(list[Batch]).validate_json
_audit = TypeAdapter(list[AuditLine]).validate_json
_keys = TypeAdapter(list[ApiKey]).validate_json
_projects = TypeAdapter(list[Project]).validate_json


class _ScoreAnswer(msgspec.Struct):
    """`schemas.ScoreAnswer` with outcomes as the structs that users get, and without the summary."""

    outcomes: list[Outcome]


_score_answer = msgspec.json.Decoder(_ScoreAnswer)


def name_of(grader: OneGrader) -> str:
    """The name of a grader; of a handle, such as `exact-match@3`. Raises TypeError for anything else."""
    if isinstance(grader, GraderRecord):
        return f"{grader.key}@{grader.version}"
    if not isinstance(grader, str):
        raise TypeError(f"{grader!r:.80} is no grader: name it, as in 'exact' or 'exact@3', or give a handle")
    return grader


def split_version(grader: OneGrader) -> tuple[str, int | None]:
    """`exact-match@3` as ("exact-match", 3), and `exact-match` as ("exact-match", None).

    Raises:
        TypeError: it is neither a name nor a handle.
        ValueError: the part after the @ is not a number.
    """
    key, at, number = name_of(grader).partition("@")
    if not at:
        return key, None
    if not number.isdecimal() or not int(number):
        raise ValueError(f"{grader!r}: the version after the @ is a number from 1 on, as in {key}@3")
    return key, int(number)


def version_of(grader: OneGrader, version: int | None) -> tuple[str, int | None]:
    """As `split_version`; `version` is the version of a name without one.

    Raises:
        ValueError: the two versions differ.
    """
    key, named = split_version(grader)
    if named is not None and version not in (None, named):
        raise ValueError(
            f"{name_of(grader)!r} is version {named}, and version={version!r} is another: give one of them"
        )
    return key, named if version is None else version


class Collection(Generic[T]):
    """The requests that graders, environments, models and endpoints have in common.

    Graders are created and listed by functions of their own.
    """

    def __init__(self, name: str, kind: type[T]) -> None:
        self._name = name
        self._read = kind.model_validate_json
        self._read_list = TypeAdapter(list[kind]).validate_json  # type: ignore[valid-type]  # known at run time

    def create(self, project: str, fields: Mapping[str, Any]) -> Call[T]:
        """Creates one."""
        return Call("POST", _path(project, self._name), self._read, body=encode(fields), idempotent=False)

    def patch(self, project: str, key: str, fields: Mapping[str, Any]) -> Call[T]:
        """Changes fields of one."""
        return Call("PATCH", _path(project, self._name, key), self._read, body=encode(fields))

    def list(self, project: str) -> "Call[list[T]]":
        """Requests all of the project."""
        return Call("GET", _path(project, self._name), self._read_list)

    def get(self, project: str, key: str) -> Call[T]:
        """Requests one."""
        return Call("GET", _path(project, self._name, key), self._read)

    def delete(self, project: str, key: str) -> Call[None]:
        """Deletes one, with what belongs to it, such as the versions of a grader or the API key of a model."""
        return Call("DELETE", _path(project, self._name, key), nothing, idempotent=False)


graders = Collection("graders", GraderRecord)
environments = Collection("environments", Environment)
models = Collection("models", ProjectModel)
endpoints = Collection("endpoints", ProjectEndpoint)


def validate(
    project: str,
    source: str,
    threads: Sequence[Thread] | None = None,
    isolation: Isolation | None = None,
    grader: str | None = None,
    environment: str | None = None,
    ask: str | None = None,
) -> Call[Report]:
    """Runs the five checks; without threads, on those that stay with `grader`."""
    fields = {"source": source, "isolation": isolation, "grader": grader, "environment": environment, "ask": ask}
    body = _to_prove(fields, threads)
    return Call("POST", _path(project, "validate"), Report.model_validate_json, body=body, work_s=PROOF_S)


def create_grader(
    project: str, fields: Mapping[str, Any], threads: Sequence[Thread] | None = None
) -> Call[GraderRecord]:
    """Creates a grader with its first version."""
    path, body = _path(project, "graders"), _to_prove(fields, threads)
    return Call("POST", path, proved_grader, body=body, once=uuid4().hex, work_s=PROOF_S)


def list_graders(project: str, after: str = "") -> Call[list[GraderRecord]]:
    """Requests the project's graders with keys after `after`; the answer may hold only the first megabytes of them."""
    return Call("GET", _path(project, "graders"), _graders, params=_query(after=after or None))


def test_threads(project: str, key: str) -> Call[list[dict[str, Any]]]:
    """Requests the threads that stay with a grader."""
    return Call("GET", _path(project, "graders", key, "threads"), msgspec.json.Decoder(dict[str, Any]).decode_lines)


def put_grader(
    project: str,
    key: str,
    fields: Mapping[str, Any],
    threads: Sequence[Thread] | None = None,
    if_version: int | None = None,
    known: GraderRecord | None = None,
) -> Call[GraderRecord]:
    """Gives a grader a new version, unless nothing changed: then warnings are issued only without `known`."""
    path, body = _path(project, "graders", key), _to_prove(fields, threads)
    read = partial(proved_grader, known=known)
    return Call("PUT", path, read, body=body, once=uuid4().hex, work_s=PROOF_S, if_version=if_version)


def list_versions(project: str, key: str, after: int) -> Call[list[Version]]:
    """Requests the versions of a grader after number `after`; the answer may hold only the first megabytes of them."""
    return Call("GET", _path(project, "graders", key, "versions"), _versions, params=[("after", str(after))])


def get_version(project: str, key: str, number: int) -> Call[Version]:
    """Requests one version of a grader with its source."""
    return Call("GET", _path(project, "graders", key, "versions", str(number)), Version.model_validate_json)


def put_environment(project: str, key: str, fields: Mapping[str, Any]) -> Call[Environment]:
    """Starts a new build of an environment, unless the newest one has the same content. None keeps the current part."""
    path, body = _path(project, "environments", key), encode(fields)
    return Call("PUT", path, Environment.model_validate_json, body=body)


def send_data(project: str, data: bytes) -> Call[EnvironmentData]:
    """Uploads a zip file of data for environments."""
    path, read = _path(project, "environments", "data"), EnvironmentData.model_validate_json
    return Call("POST", path, read, body=data, media_type="application/zip", work_s=DATA_S)


def wait_for_environment(project: str, key: str, wait_s: float) -> Call[Environment]:
    """Requests an environment with its builds; the answer waits at most `wait_s` seconds for the newest one."""
    path, params = _path(project, "environments", key), [("wait_s", f"{wait_s:g}")]
    return Call("GET", path, Environment.model_validate_json, params=params, work_s=wait_s)


def test_model(project: str, key: str, timeout_s: float) -> Call[ModelTrial]:
    """Tests a model with three requests of at most `timeout_s` seconds each."""
    path, work_s = _path(project, "models", key, "test"), _MODEL_WAIT_S + 3 * timeout_s
    return Call("POST", path, ModelTrial.model_validate_json, idempotent=False, work_s=work_s)


def model_fields(
    base_url: str | None,
    model: str | None,
    api_key: str | None,
    defaults: ModelDefaults | Mapping[str, Any] | None,
    timeout_s: float | None,
) -> dict[str, object]:
    """The fields of a request for a model that say what is asked."""
    return {
        "base_url": base_url,
        "model": model,
        "api_key": api_key,
        "defaults": None if defaults is None else ModelDefaults.model_validate(defaults).model_dump(exclude_none=True),
        "timeout_s": timeout_s,
    }


def model_limits(
    max_concurrency: int | None,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    price: Price | Mapping[str, Any] | None,
    keep_replies: bool | None,
) -> dict[str, object]:
    """The fields of a request for a model that say how often it is asked, and what that costs."""
    return {
        "max_concurrency": max_concurrency,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "price": None if price is None else asdict(Price(**price) if isinstance(price, Mapping) else price),
        "keep_replies": keep_replies,
    }


def endpoint_fields(
    url: str | None,
    api_key: str | None,
    timeout_s: float | None,
    max_concurrency: int | None,
    requests_per_minute: int | None,
) -> dict[str, object]:
    """The fields of a request for an endpoint."""
    return {
        "url": url,
        "api_key": api_key,
        "timeout_s": timeout_s,
        "max_concurrency": max_concurrency,
        "requests_per_minute": requests_per_minute,
    }


def get_spending(project: str, period: str) -> Call[ProjectSpending]:
    """Requests the spending of the project's asks, in total or in a day or month."""
    path, params = _path(project, "spending"), _query(period=period or None)
    return Call("GET", path, ProjectSpending.model_validate_json, params=params)


def get_budget(project: str) -> Call[ProjectBudget]:
    """Requests the budget of the project."""
    return Call("GET", _path(project, "budget"), ProjectBudget.model_validate_json)


def put_budget(project: str, fields: Mapping[str, Any]) -> Call[ProjectBudget]:
    """Sets the budget of the project."""
    return Call("PUT", _path(project, "budget"), ProjectBudget.model_validate_json, body=encode(fields))


def delete_budget(project: str) -> Call[None]:
    """Removes the budget of the project."""
    return Call("DELETE", _path(project, "budget"), nothing)


def test_endpoint(project: str, key: str, timeout_s: float) -> Call[EndpointTrial]:
    """Tests an endpoint with one request of at most `timeout_s` seconds."""
    path, work_s = _path(project, "endpoints", key, "test"), _MODEL_WAIT_S + timeout_s
    return Call("POST", path, EndpointTrial.model_validate_json, idempotent=False, work_s=work_s)


def score(project: str, key: str, version: int | None, lines: Sequence[bytes]) -> Call[list[Outcome]]:
    """Scores at most 1,000 threads in one request."""
    return Call(
        "POST",
        _path(project, "graders", key, "score"),
        lambda body: _score_answer.decode(body).outcomes,
        body=_with_threads(encode({"version": version}), lines),
        work_s=COMPLETION_S * len(lines) + ASK_S,
    )


def create_batch(
    project: str,
    graders: GraderChoice,
    threads: Threads,
    budget: BatchBudget | None = None,
    keep_replies: bool = True,
) -> Call[Batch]:
    """Uploads threads to be scored by these graders, each with its weight, by default 1."""
    weights = weights_of(graders)
    params = [("grader", grader) for grader in weights]
    if any(weight != 1.0 for weight in weights.values()):
        params += [("weight", repr(float(weight))) for weight in weights.values()]
    for name, value in _budget_fields(budget).items():
        params.append((f"budget_{name}", str(value)))
    if not keep_replies:
        params.append(("keep_replies", "false"))
    path = _path(project, "batches")
    return Call("POST", path, Batch.model_validate_json, params=params, threads=threads, once=uuid4().hex)


def _budget_fields(budget: BatchBudget | None) -> dict[str, Any]:
    if budget is None:
        return {}
    if not isinstance(budget, BatchBudget):
        raise TypeError(f"budget={budget!r:.80} is no budget: write gradebox.BatchBudget(cost=0.5), in USD, or tokens=")
    return budget.model_dump(exclude_none=True)


def create_batch_of(
    project: str, graders: GraderChoice, batch: str, budget: BatchBudget | None = None, keep_replies: bool = True
) -> Call[Batch]:
    """Scores the threads of another batch with these graders."""
    wanted = []
    for grader, weight in weights_of(graders).items():
        key, version = split_version(grader)
        wanted.append({"key": key, "weight": float(weight)} | ({} if version is None else {"version": version}))
    body: dict[str, Any] = {"graders": wanted, "threads_of": batch, "keep_replies": keep_replies}
    if budget is not None:
        body["budget"] = _budget_fields(budget)
    path = _path(project, "batches")
    return Call("POST", path, Batch.model_validate_json, body=encode(body), once=uuid4().hex, work_s=COPY_S)


def list_batches(project: str, limit: int, before: str | None, grader: str | None = None) -> Call[list[Batch]]:
    """Requests the project's newest batches: those older than `before` and those of `grader`, if given."""
    params = _query(limit=limit, before=before, grader=grader)
    return Call("GET", _path(project, "batches"), _batches, params=params)


def get_batch(project: str, batch: str, wait_s: float = 0, bootstrap: bool = False) -> Call[Batch]:
    """Requests the state of a batch; the answer waits at most `wait_s` seconds for its end."""
    params = _query(wait_s=f"{wait_s:g}" if wait_s else None, bootstrap="true" if bootstrap else None)
    work_s = wait_s + (STATISTICS_S if bootstrap else 0)
    return Call("GET", _path(project, "batches", batch), Batch.model_validate_json, params=params, work_s=work_s)


def compare(
    project: str, a: str, b: str, grader: str | None, grader_b: str | None, threshold: float, limit: int
) -> Call[Comparison]:
    """Compares the scores of the same rows in two batches."""
    params = _query(a=a, b=b, threshold=float(threshold), limit=limit, grader=grader, grader_b=grader_b)
    return Call("GET", _path(project, "compare"), noted_comparison, params=params, work_s=STATISTICS_S)


def agreement(project: str, batch: str, grader: str | None, label: str, threshold: float | None) -> Call[Agreement]:
    """Requests the agreement of a grader with labels."""
    params = _query(label=label, grader=grader, threshold=_number(threshold))
    path = _path(project, "batches", batch, "agreement")
    return Call("GET", path, noted_agreement, params=params, work_s=STATISTICS_S)


def table(
    project: str,
    batch: str,
    grader: str | None,
    kind: KindFilter | None,
    low: float | None,
    high: float | None,
    bin_number: int | None,
    text: str | None,
    sort: Sort,
    page: int,
    limit: int,
) -> Call[TablePage]:
    """Requests a page of outcomes."""
    params = _query(
        grader=grader,
        kind=kind,
        low=_number(low),
        high=_number(high),
        bin=bin_number,
        text=text,
        sort=sort,
        page=page,
        limit=limit,
    )
    path, read = _path(project, "batches", batch, "table"), msgspec.json.Decoder(TablePage).decode
    return Call("GET", path, read, params=params, work_s=STATISTICS_S)


def error_groups(project: str, batch: str, grader: str | None) -> Call[ErrorGroups]:
    """Requests the errors of a batch in groups."""
    path, read = _path(project, "batches", batch, "errors"), msgspec.json.Decoder(ErrorGroups).decode
    return Call("GET", path, read, params=_query(grader=grader), work_s=STATISTICS_S)


def threads_at(project: str, batch: str, indices: Iterable[int]) -> Call[list[Any]]:
    """Requests some threads of a batch, as they were sent."""
    params = [("index", str(index)) for index in indices]
    return Call("GET", threads_path(project, batch), read_threads, params=params)


def create_feedback(
    project: str, batch: str, fields: Mapping[str, Any], labels: Labels | None, budget: BatchBudget | None
) -> Call[Batch]:
    """Creates a batch of feedback on the outcomes of a batch."""
    body = dict(fields)
    if labels is not None:
        body["labels"] = labels if isinstance(labels, str) else {str(key): float(of) for key, of in labels.items()}
    if budget is not None:
        body["budget"] = _budget_fields(budget)
    path = _path(project, "batches", batch, "feedback")
    return Call("POST", path, Batch.model_validate_json, body=encode(body), once=uuid4().hex, work_s=COPY_S)


def record_scores(project: str, batch: str, grader: str, lines: bytes) -> Call[Batch]:
    """Records external scores in a batch."""
    path, params = _path(project, "batches", batch, "scores"), [("grader", grader)]
    read = Batch.model_validate_json
    return Call("PUT", path, read, params=params, body=lines, media_type="application/x-ndjson", work_s=STATISTICS_S)


def retry_batch(project: str, batch: str) -> Call[Batch]:
    """Scores the retryable outcomes of a batch again."""
    return Call("POST", _path(project, "batches", batch, "retry"), Batch.model_validate_json)


def cancel_batch(project: str, batch: str) -> Call[Batch]:
    """Stops a batch; its outcomes so far are kept."""
    return Call("POST", _path(project, "batches", batch, "cancel"), Batch.model_validate_json)


def keep_batch(project: str, batch: str, kept: bool) -> Call[Batch]:
    """Keeps a batch beyond the usual retention time, or ends that."""
    body = encode({"kept": kept})
    return Call("PATCH", _path(project, "batches", batch), Batch.model_validate_json, body=body)


def delete_batch(project: str, batch: str) -> Call[None]:
    """Deletes a batch with its threads and outcomes."""
    return Call("DELETE", _path(project, "batches", batch), nothing, gone_is_done=True)


def outcomes_path(project: str, batch: str) -> str:
    """The path of a batch's outcomes."""
    return _path(project, "batches", batch, "outcomes")


def threads_path(project: str, batch: str) -> str:
    """The path of a batch's threads."""
    return _path(project, "batches", batch, "threads")


def create_key(name: str, projects: Sequence[str], role: Role) -> Call[ApiKey]:
    """Creates an API key; this answer is the only one that holds its secret."""
    body = encode({"name": name, "projects": list(projects), "role": role})
    return Call("POST", "/v1/keys", ApiKey.model_validate_json, body=body, idempotent=False)


def me() -> Call[ApiKey]:
    """Requests the client's API key."""
    return Call("GET", "/v1/me", ApiKey.model_validate_json)


def sign_in() -> Call[SignInLink]:
    """Requests a link that signs a browser in."""
    return Call("POST", "/v1/me/sign-in", SignInLink.model_validate_json, idempotent=False)


def list_keys() -> Call[list[ApiKey]]:
    """Requests all API keys, without their secrets."""
    return Call("GET", "/v1/keys", _keys)


def revoke_key(key: str) -> Call[None]:
    """Revokes the API key with this id."""
    return Call("DELETE", f"/v1/keys/{quote(key, safe='')}", nothing)


def create_project(key: str) -> Call[Project]:
    """Creates a project."""
    return Call("POST", "/v1/projects", Project.model_validate_json, body=encode({"key": key}), idempotent=False)


def list_projects() -> Call[list[Project]]:
    """Requests the projects that the API key covers."""
    return Call("GET", "/v1/projects", _projects)


def list_audit(project: str | None, limit: int, before: str | None) -> Call[list[AuditLine]]:
    """Requests the newest changes in a project; without a project, those of API keys and projects."""
    path = "/v1/audit" if project is None else _path(project, "audit")
    return Call("GET", path, _audit, params=_query(limit=limit, before=before))


def weights_of(graders: GraderChoice) -> dict[str, float]:
    """The graders, each with its weight, by default 1.

    Raises:
        TypeError: one is neither a name nor a handle, or a weight is no number.
        ValueError: one is named twice.
    """
    if isinstance(graders, str | GraderRecord) or not isinstance(graders, Iterable):
        graders = [graders]  # `name_of` refuses what is no grader
    pairs = graders.items() if isinstance(graders, Mapping) else [(one, 1.0) for one in graders]
    named = [(name_of(one), weight) for one, weight in pairs]
    if repeated := [name for name, count in Counter(name for name, _ in named).items() if count > 1]:
        raise ValueError(f"the grader {repeated[0]!r} is named twice: name it once")
    return {name: _weight(name, weight) for name, weight in named}


def _weight(grader: str, weight: Any) -> float:
    if isinstance(weight, str) or not hasattr(weight, "__float__"):  # numpy's numbers have it too
        raise TypeError(f"the weight of {grader!r} is {weight!r:.80}, and a weight is a number: {{{grader!r}: 0.5}}")
    return float(weight)


def _query(**values: object) -> Params:
    """The parameters that are not None."""
    return [(name, str(value)) for name, value in values.items() if value is not None]


def _number(value: float | None) -> float | None:
    """The same as a Python float: the text of numpy's is shorter for the same number, and so means another one."""
    return None if value is None else float(value)


def _path(project: str, *parts: str) -> str:
    for part in (project, *parts):
        if not isinstance(part, str) or not part or "/" in part:
            raise GradeboxError(f"{part!r:.80} is no key or id: pass text that is not empty and has no /")
    return "/v1/projects/" + "/".join(quote(part, safe="") for part in (project, *parts))


def _to_prove(fields: Mapping[str, Any], threads: Sequence[Thread] | None) -> bytes:
    """A JSON body with the fields of a grader, and the threads of its test run, if any."""
    if threads is None:
        return encode(fields)
    return _with_threads(encode(fields), [to_line(thread, number) for number, thread in enumerate(each_of(threads))])


def _with_threads(head: bytes, lines: Sequence[bytes]) -> bytes:
    """The encoded JSON object `head` with the encoded threads as another member."""
    comma = b"," if head != b"{}" else b""
    return b'%b%b"threads":[%b]}' % (head[:-1], comma, b",".join(lines))
