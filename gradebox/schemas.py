"""The wire schemas of the API. Times are ISO 8601 in UTC; names of durations include their unit."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, computed_field

from gradebox.frame import Outcomes
from gradebox.notebook_tables import table, table_of
from gradebox.outcome import Outcome

CheckName = Literal["syntax", "structure", "signature", "execution", "test_run"]
CHECKS: tuple[CheckName, ...] = ("syntax", "structure", "signature", "execution", "test_run")
Isolation = Literal["auto", "batch", "completion"]
# The service generates the source of a grader of these kinds from its config.
WrittenKind = Literal[
    "binary_judge",
    "external",
    "judge",
    "faithfulness",
    "context_relevancy",
    "answer_relevancy",
    "checks",
    "combine",
    "multi_criteria",
    "pairwise_judge",
]
Kind = Literal["function", "prebuilt", "custom"] | WrittenKind
BuildState = Literal["building", "ready", "failed"]
BudgetPeriod = Literal["day", "month", "total"]
FeedbackOn = Literal["failures", "all"]
FeedbackTarget = Literal["completion", "judge"]
BatchState = Literal["queued", "running", "finished", "cancelled", "failed"]
ENDED: tuple[BatchState, ...] = ("finished", "cancelled", "failed")
Role = Literal["read", "score", "manage"]
ROLES: tuple[Role, ...] = ("read", "score", "manage")  # each includes the permissions of those before it
WarningKind = Literal["equal", "errors", "jump", "no_completion", "few_apply"]
ModelFailure = Literal["unknown", "unreachable", "rate_limited", "refused", "cut_off", "invalid_reply"]
KEY_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}(?!\n)$"  # `$` alone would also match before a trailing newline


_PLACE = re.compile(r"line ([0-9]{1,9}): (.*)", re.DOTALL)


class _Schema(BaseModel):
    model_config = ConfigDict(frozen=True)


class Check(_Schema):
    """One of the five checks of a validation."""

    name: CheckName
    passed: bool
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str | None = Field(None, description="the grader's own frames, never ours")
    duration_ms: float


def _outcomes(value: object) -> Outcomes:
    return value if isinstance(value, Outcomes) else Outcomes(msgspec.convert(value, list[Outcome]))


class WarningPlace(_Schema):
    """A warning about one line of the source; the message does not repeat the line number."""

    line: int
    message: str


class Report(_Schema):
    """The result of the five checks of one source. If a check fails, it is the last in `checks`."""

    valid: bool
    checks: list[Check]
    warnings: list[str] = []
    isolation: Literal["batch", "completion"] | None = Field(None, description="what `auto` came to for this source")
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    groups: bool = Field(False, description="whether a line is a group of threads, each of which has a score")
    outcomes: Annotated[
        Outcomes,
        PlainValidator(_outcomes, json_schema_input_type=list[dict[str, Any]]),
        PlainSerializer(msgspec.to_builtins, return_type=list[dict[str, Any]]),
    ] = Field(default_factory=Outcomes, description="one for each thread of the test run")

    @computed_field(description="the warnings that are of a line of the source, for editors")  # type: ignore[prop-decorator]
    @property
    def places(self) -> list[WarningPlace]:
        """The warnings that refer to a line of the source, for editors."""
        found = (_PLACE.fullmatch(warning) for warning in self.warnings)
        return [WarningPlace(line=int(place[1]), message=place[2]) for place in found if place]

    @property
    def failed(self) -> Check | None:
        """The check that failed, or None."""
        return next((check for check in self.checks if not check.passed), None)

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            ("✓" if check.passed else "✗", check.name, check.line, check.message) for check in self.checks
        ]
        rows += [("!", "warning", None, each) for each in self.warnings]
        return table(("", "check", "line", "message"), rows) + (self.outcomes._repr_html_() if self.outcomes else "")


class EnvironmentPackage(_Schema):
    """One package of a build, as locked."""

    name: str
    version: str
    sha256: list[str] = Field(description="of the wheels that may be installed, mostly one")


class EnvironmentBuild(_Schema):
    """One set of packages. It is immutable once it is ready."""

    number: int
    state: BuildState
    requirements: list[str] = Field(description="as they were asked for")
    data: str = Field("", description="the SHA-256 of the data beside the packages, as it was sent; empty: none")
    step: str = Field("", description="what is done now, while it is building")
    reason: str | None = Field(None, description="why it failed, and what to do")
    packages: list[EnvironmentPackage] = Field([], description="all that is installed, locked by hash")
    sha256: str = Field("", description="of the content, once it is ready: equal builds share it")
    python: str = Field("", description="the Python version that it was built for, such as 3.12")
    size_bytes: int = Field(0, description="of all files, unpacked")
    files: int = 0
    created_at: datetime
    ended_at: datetime | None = None


class Environment(_Schema):
    """A named set of packages of a project that graders may import."""

    project: str
    key: str
    build: int = Field(description="the number of the newest build")
    state: BuildState = Field(description="of the newest build")
    created_at: datetime
    updated_at: datetime
    builds: list[EnvironmentBuild] = Field([], description="oldest first; in lists and answers to changes, the newest")

    @property
    def newest(self) -> EnvironmentBuild | None:
        """The newest build, if it is part of the response."""
        return next((build for build in self.builds if build.number == self.build), None)


class EnvironmentData(_Schema):
    """Data that was uploaded, to be placed beside the packages of environments."""

    sha256: str = Field(description="of the zip file: it names the data")
    size_bytes: int = Field(description="of all files, unpacked")
    files: int


class EnvironmentUse(_Schema):
    """The build that a version of a grader runs in."""

    key: str
    build: int
    sha256: str = Field(description="of the content of the build")

    @property
    def label(self) -> str:
        """The environment and build as `KEY@BUILD`."""
        return f"{self.key}@{self.build}"

    def __str__(self) -> str:
        return self.label


class Version(_Schema):
    """One immutable source of a grader and the config that it was generated from; or only a config, without a
    source."""

    number: int
    kind: Kind = "function"
    sha256: str = Field(description="of the source that was validated, as UTF-8; where there is none, of the config")
    source: str = Field(description="empty: the grader is kept as it was sent, and cannot be run")
    config: dict[str, Any] | None = Field(None, description="of another kind than `function`: what it is made from")
    isolation: Literal["batch", "completion"] = Field(description="in force: what `auto` came to")
    isolation_asked: Isolation
    timeout_s: float
    memory_mb: int
    environment: EnvironmentUse | None = Field(None, description="the packages that it may import; None: none")
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    waits: bool = Field(
        True, description="whether what it asks may be waited for: not where it combines graders that ask nothing"
    )
    groups: bool = Field(False, description="whether a line is a group of threads, each of which has a score")
    pinned: dict[str, str] = Field({}, description="of each `grader:KEY` the version that is asked, as `KEY@NUMBER`")
    proved_with_stand_ins: bool = Field(False, description="whether stand-ins answered what it asked in the test run")
    created_at: datetime
    warnings: list[str] = []


_PATH = r"^(inputs|output|messages)(\.[^.\x00-\x1f]{1,100}){0,9}$"


class WeaveMapping(_Schema):
    """Where Weave's calls hold the parts of a thread: paths of names and list positions, separated by dots. Paths that
    begin with `messages` apply to agent turns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    completion: str | None = Field(None, pattern=_PATH, description="null: `output`, where it is a text or a message")
    prompt: str | None = Field(None, pattern=_PATH, description="null: `inputs.messages`, where it is there")
    metadata: str | None = Field(None, pattern=_PATH, description="of an object; null: `inputs`")


class GraderRecord(_Schema):
    """A named scoring rule of a project, with its newest version."""

    project: str
    key: str
    kind: Kind = Field(
        "function", description="`prebuilt` is kept, and cannot be run; the scores of a `custom` are recorded"
    )
    lacks: str | None = Field(None, description="what keeps it from being run, and what to do; where one is asked for")
    name: str
    description: str
    locked: bool
    version: int
    sha256: str
    isolation: Literal["batch", "completion"]
    timeout_s: float
    memory_mb: int
    test_threads: int = Field(0, description="kept of those that it was proved on: later proofs use them")
    environment: EnvironmentUse | None = Field(None, description="the packages that its newest version may import")
    asks: list[str] = Field([], description="what its newest version may ask")
    groups: bool = Field(False, description="whether its newest version takes groups of threads")
    warnings: list[str] = Field([], description="of the checks, for its newest version")
    weave: WeaveMapping | None = Field(None, description="where calls of Weave have the parts of a thread, as was said")
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key}@{self.version} of project {self.project}>"

    def _repr_html_(self) -> str:
        return table_of([self], GRADER_COLUMNS)


# The columns of listings, by field name.
GRADER_COLUMNS = ("key", "kind", "version", "locked", "isolation", "environment", "updated_at", "description")
KEY_COLUMNS = ("id", "name", "projects", "role", "revoked", "created_at")
BATCH_COLUMNS = ("id", "state", "graders", "done", "total", "scored", "errors", "not_applicable", "created_at")


class BatchGrader(_Schema):
    """One grader of a batch. The version is fixed when the batch is accepted."""

    key: str
    version: int
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.key}@{self.version}"


class HistogramBin(_Schema):
    """Counts the scores from `low` up to `high`; the last bin includes its upper end."""

    low: float
    high: float
    count: int


class ValueSummary(_Schema):
    """Statistics of the values that scores had under one name."""

    count: int
    mean: float | None
    minimum: float
    maximum: float


class SpentSummary(_Schema):
    """The cost of a grader's asks over a batch."""

    asks: int
    kept: int = Field(description="of them, those that were answered with a reply that was kept, at no cost")
    input_tokens: int = Field(description="of all asks that were not, as the servers counted")
    output_tokens: int
    cost: float = Field(description="in the currency of the models' prices; 0 where they have none")


SPENT_COLUMNS = tuple(SpentSummary.model_fields)


class Interval(_Schema):
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95
    method: Literal["bca", "normal"] = Field(description="by bootstrap, bias-corrected and accelerated; or normal")
    resamples: int | None = Field(None, description="of the bootstrap")


class BiasCount(_Schema):
    """Number of decisions made in both orders, and how many of them differ."""

    checked: int
    detected: int


class Summary(_Schema):
    """Statistics of the scores of one grader over a batch. Quantiles are exact to three significant digits."""

    grader: str
    weight: float
    count: int = Field(description="outcomes, with or without a score")
    scored: int
    errors: dict[str, int] = Field(description="how many of each kind")
    not_applicable: int = Field(0, description="outcomes with neither: the grader does not apply to the thread")
    mean: float | None
    interval: Interval | None = Field(
        None, description="of the mean, by bootstrap where that was asked for; null for one score, and for equal ones"
    )
    passed: int | None = Field(None, description="scores of at least 1; null where an earlier version did not count")
    pass_rate: float | None = Field(None, description="of the scores")
    options: dict[str, int] = Field({}, description="how often `details` had which `option`: of the first 16")
    options_left_out: int = Field(0, description="outcomes with further options, or those of more than 100 characters")
    positional_bias: BiasCount | None = Field(
        None, description="of judges that asked in both orders; null where there was no such decision"
    )
    deviation: float | None = Field(description="of the population")
    minimum: float | None
    maximum: float | None
    quantiles: dict[str, float] = Field(description="p05, p25, p50, p75, p95")
    histogram: list[HistogramBin]
    run_ms_mean: float | None
    values: dict[str, ValueSummary] = Field({}, description="what scores carried by name: of the first 16 names")
    values_left_out: int = Field(0, description="values of further names")
    spent: SpentSummary | None = Field(None, description="what its asks came to; null where it asked nothing")
    warnings: list[str] = Field(description="why these scores may be no reward to train on")
    warning_kinds: list[WarningKind] = Field(
        [],
        description="of the warnings, in their order, for programs",
    )


class BatchBudget(_Schema):
    """The budget of a batch for its asks, including all retries. Asks end when the first limit is reached."""

    cost: float | None = Field(None, description="in `currency`, by models whose price is in it; null: any")
    tokens: int | None = Field(None, description="input and output together; null: any")
    currency: str = "USD"


class FeedbackOf(_Schema):
    """The subject of a batch of feedback. The reason of each of its outcomes is the feedback."""

    batch: str = Field(description="the id of the batch whose outcomes it is on")
    grader: str = Field(description="the grader whose outcomes these are, with its version")
    model: str = Field(description="the key of the model that gives it")
    on: FeedbackOn = Field("failures", description="all outcomes with a score, or those that are too low or wrong")
    of: FeedbackTarget = Field("completion", description="whether the completion is to be changed, or the judge")
    threshold: float | None = Field(
        None, description="a failure scores less; with labels, scores and labels count as 1 from there on, else as 0"
    )
    labels: str | None = Field(
        None, description="what says which score is right: a grader of the batch, a field, or `given` with the request"
    )
    instructions: str | None = Field(None, description="what else the model is told")


class AwaitedServer(_Schema):
    """A model's or endpoint's server that a batch waits for: it does not answer, or it limits the rate of requests."""

    asked: str = Field(description="`model:small-judge` or `endpoint:my-reward`")
    kind: Literal["unreachable", "rate_limited"]
    seconds: int = Field(description="for so long it has not answered; or for so long it wants no request yet")

    def __str__(self) -> str:
        said = "has not answered for" if self.kind == "unreachable" else "wants no request for"
        return f"{self.asked.replace(':', ' ')} {said} {self.seconds} s"


class Batch(_Schema):
    """Threads to be scored by one or more graders."""

    id: str
    project: str
    state: BatchState
    graders: list[BatchGrader]
    threads: int
    total: int = Field(description="outcomes in the end: threads times graders")
    done: int = Field(description="outcomes so far, which can be read")
    underway: int = Field(0, description="outcomes beyond those, of chunks that are not complete yet")
    scored: int
    errors: dict[str, int]
    not_applicable: int = Field(0, description="outcomes with neither a score nor an error, of those that are done")
    created_by: str | None = Field(None, description="the id of the API key that it was made with")
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    budget: BatchBudget | None = Field(None, description="of its asks; null where only the project's bounds them")
    keep_replies: bool = Field(True, description="whether its asks are answered with kept replies, and theirs are kept")
    feedback_of: FeedbackOf | None = Field(None, description="of a batch of feedback: what it is on")
    waits_for: list[AwaitedServer] = Field([], description="servers that it cannot ask at the moment")
    trouble: str | None = Field(None, description="why it does not go on: no worker of its queue is there")
    kept: bool = Field(False, description="whether it lives on when other batches have had their time")
    weighted_mean: float | None = Field(None, description="sum of weight times mean, once every grader has scores")
    summary: list[Summary] = Field([], description="one for each grader; of what is done so far while it runs")
    recorded: list[Summary] = Field(
        [], description="of scores that were recorded from outside: one for each grader of kind `custom` that has some"
    )
    summary_error: str | None = Field(None, description="why the summary of a grader is missing")

    def _repr_html_(self) -> str:
        caption = f"batch {self.id}: {self.state}, {self.done:,} of {self.total:,} outcomes"
        columns = ("grader", "count", "scored", "mean", "deviation", "minimum", "maximum", "errors", "not applicable")
        rows = [
            (
                *(getattr(one, name) for name in columns[:-2]),
                ", ".join(f"{count:,} {kind}" for kind, count in sorted(one.errors.items())),
                one.not_applicable,
                " ".join(one.warnings),
            )
            for one in (*self.summary, *self.recorded)
        ]
        spent = [(one.grader, *one.spent.model_dump().values()) for one in self.summary if one.spent]
        asked = table(("grader", *SPENT_COLUMNS), spent) if spent else ""
        return table((*columns, "warnings"), rows, caption) + asked


class ScoreAnswer(_Schema):
    """The response of synchronous scoring: an outcome for each thread, in order."""

    outcomes: list[dict[str, Any]]
    summary: Summary | None
    summary_error: str | None = Field(None, description="why there is no summary")


class ApiKey(_Schema):
    """An API key without its secret, which is shown once, when the key is created."""

    id: str
    name: str
    projects: list[str] = Field(description='"*" stands for every project')
    role: Role = Field("manage", description="what it may do there; for every project, manage is for keys too")
    created_at: datetime
    revoked: bool
    secret: str | None = Field(None, description="the key to send; only in the answer that made it")


class SignInLink(_Schema):
    """A link that signs a browser in to the web pages."""

    path: str = Field(description="below the service's URL; it works once, within a day")


class Project(_Schema):
    """A project separates the graders and batches of one team from those of others."""

    key: str
    name: str = ""
    description: str = ""
    created_at: datetime


class ModelDefaults(_Schema):
    """Parameters that are sent with each request to a model, unless the request overrides them."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Price:
    """The price of a million tokens.

    Attributes:
        input: of input tokens.
        output: of output tokens.
        currency: a code of three capital letters.
    """

    input: float
    output: float
    currency: str = "USD"


class ProjectModel(_Schema):
    """A model of a project, on any server with OpenAI's chat completions API. Its API key is never shown."""

    project: str
    key: str
    base_url: str
    model: str = Field(description="its name there")
    has_api_key: bool
    defaults: ModelDefaults
    timeout_s: float = Field(description="for one whole reply")
    max_concurrency: int = Field(16, description="requests at once, of all workers together")
    requests_per_minute: int | None = Field(None, description="of all workers together; None: no limit")
    tokens_per_minute: int | None = Field(None, description="the same of tokens, input and output")
    price: Price | None = Field(None, description="None: it costs nothing, or nobody said what")
    keep_replies: bool = Field(True, description="whether a reply is kept for who asks the same again")
    structured_output: bool | None = Field(None, description="whether replies fit a schema; None: not tested")
    logprobs: bool | None = Field(None, description="whether the server tells log probabilities; None: not tested")
    tested_at: datetime | None = Field(None, description="when it last passed a test, since it was changed")
    created_at: datetime
    updated_at: datetime


class ModelFault(_Schema):
    """Why a model gave no usable reply."""

    kind: ModelFailure
    message: str = Field(description="what happened, and what to do")
    retryable: bool = Field(description="whether the same may come to another end later")
    retry_after_s: float | None = Field(None, description="what the server asked to wait")


class ModelTrial(_Schema):
    """The result of a test of a model."""

    passed: bool
    error: ModelFault | None = None
    reply: str = Field("", description="the beginning of what it said")
    structured_output: bool | None = None
    logprobs: bool | None = None
    duration_ms: float


class ProjectEndpoint(_Schema):
    """An endpoint of a project: a reward server. Its API key is never shown."""

    project: str
    key: str
    url: str = Field(description="what `/score` is put behind")
    has_api_key: bool
    timeout_s: float = Field(description="for one whole reply")
    max_concurrency: int = Field(16, description="requests at once, of all workers together")
    requests_per_minute: int | None = Field(None, description="of all workers together; None: no limit")
    tested_at: datetime | None = Field(None, description="when it last passed a test, since it was changed")
    created_at: datetime
    updated_at: datetime


class EndpointTrial(_Schema):
    """The result of a test of an endpoint."""

    passed: bool
    error: ModelFault | None = None
    reward: float | None = Field(None, description="what it gave the thread that was sent")
    duration_ms: float


class ProjectBudget(_Schema):
    """A project's budget for asks, and how much of it is spent."""

    cost: float | None = Field(None, description="in `currency`; None: any")
    tokens: int | None = Field(None, description="input and output together; None: any")
    currency: str = "USD"
    period: BudgetPeriod = Field("total", description="what is spent is counted anew each day or month, UTC")
    spent_cost: float = Field(description="of this period, by models whose price is in `currency`")
    spent_tokens: int = Field(description="of this period, by all models")
    is_spent: bool = Field(description="whether nothing more is asked")


class Spending(_Schema):
    """The cost of asks."""

    asks: int
    kept: int = Field(description="of them, those that were answered with a kept reply, at no cost")
    input_tokens: int
    output_tokens: int
    costs: dict[str, float] = Field(description="by currency, of models that have a price")


class ProjectSpending(_Schema):
    """The cost of the asks of a project."""

    total: Spending
    by: dict[str, Spending] = Field(
        description="of each `model:…`, `endpoint:…` and `grader:…`; for all time alone: days and months are not parted"
    )


class AuditLine(_Schema):
    """One change: its author, action, object, time and client address."""

    id: str = Field(description="to read on from")
    at: datetime
    key: str = Field(description="the id of the API key")
    address: str = Field(description="of the client")
    request_id: str
    action: str = Field(description="such as grader.update or batch.cancel")
    object: str = Field(description="the grader's key, or the id of the batch or API key")
    detail: str = Field(description="such as the new version")


class Problem(BaseModel):
    """An error of the API (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="stable; the last part names the problem, such as validation-failed")
    title: str
    status: int
    detail: str = Field(description="what happened, to what, and what to do")
    request_id: str
