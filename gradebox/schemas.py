"""The wire schemas of the API. Times are ISO 8601 in UTC; names of durations include their unit."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, computed_field
from pydantic_core import to_json

from gradebox.frame import Outcomes
from gradebox.notebook_tables import table, table_of
from gradebox.number_text import Money, number_text
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
Kind = Literal["function", "custom"] | WrittenKind
BuildState = Literal["building", "ready", "failed"]
BudgetPeriod = Literal["day", "month", "total"]
FeedbackOn = Literal["failures", "all"]
FeedbackTarget = Literal["completion", "judge"]
BatchState = Literal["queued", "running", "finished", "cancelled", "failed"]
ENDED: tuple[BatchState, ...] = ("finished", "cancelled", "failed")
Role = Literal["read", "score", "manage"]
ROLES: tuple[Role, ...] = ("read", "score", "manage")  # each includes the permissions of those before it
WarningKind = Literal["equal", "errors", "jump", "no_completion", "few_apply"]
ModelFailure = Literal["unknown", "unreachable", "rate_limited", "refused", "cut_off", "invalid_reply", "over_budget"]
KEY_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}(?!\n)$"  # `$` alone would also match before a trailing newline


_LINE = 200  # characters of a `repr`
_PLACE = re.compile(r"line ([0-9]{1,9}): (.*)", re.DOTALL)
_ON_ANNOTATION = re.compile(r"line \d+: annotate ")


def on_scores(warnings: list[str]) -> list[str]:
    """The warnings of the checks but for those about annotations, since no score depends on them."""
    return [warning for warning in warnings if not _ON_ANNOTATION.match(warning)]


class Schema(BaseModel):
    """The base class of all schemas."""

    model_config = ConfigDict(frozen=True)

    def __str__(self) -> str:
        return repr(self)

    def _in_brackets(self, text: str) -> str:
        """The `repr` of an object with many fields: its class and one line of text."""
        line = " ".join(text.split())
        return f"<{type(self).__name__} {line if len(line) <= _LINE else line[:_LINE] + '…'}>"


class Check(Schema):
    """One of the five checks of a validation."""

    name: CheckName
    passed: bool
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str | None = Field(None, description="only frames of the grader's source")
    duration_ms: float


def _outcomes(value: object) -> Outcomes:
    return value if isinstance(value, Outcomes) else Outcomes(msgspec.convert(value, list[Outcome]))


class WarningPlace(Schema):
    """A warning about one line of the source; the message does not repeat the line number."""

    line: int
    message: str


class Report(Schema):
    """The result of the five checks of one source, which is true if the grader is valid. If a check fails, it is the
    last in `checks`.
    """

    valid: bool
    checks: list[Check]
    warnings: list[str] = []
    isolation: Literal["batch", "completion"] | None = Field(
        None, description="the isolation that applies; for `auto`, the one chosen for this source"
    )
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    groups: bool = Field(False, description="whether a line is a group of threads, each with its own score")
    outcomes: Annotated[
        Outcomes,
        PlainValidator(_outcomes, json_schema_input_type=list[dict[str, Any]]),
        PlainSerializer(msgspec.to_builtins, return_type=list[dict[str, Any]]),
    ] = Field(default_factory=Outcomes, description="one outcome for each thread of the test run")

    @computed_field(description="the warnings about one line of the source, for editors")  # type: ignore[prop-decorator]
    @property
    def places(self) -> list[WarningPlace]:
        """The warnings that refer to a line of the source, for editors."""
        found = (_PLACE.fullmatch(warning) for warning in self.warnings)
        return [WarningPlace(line=int(place[1]), message=place[2]) for place in found if place]

    def __bool__(self) -> bool:
        return self.valid

    def __repr__(self) -> str:
        return self._in_brackets(str(self))

    def __str__(self) -> str:
        return self.with_warnings(self.warnings)

    def with_warnings(self, warnings: list[str]) -> str:
        """What failed, if anything did, and these warnings as text."""
        lines = ["the grader is valid" if self.valid else "the grader is not valid"]
        if (failed := self.failed) is not None:
            where = f" (line {failed.line})" if failed.line else ""
            lines = [f"check {failed.name!r} failed{where}: {failed.message}"]
            lines += [failed.traceback.rstrip()] if failed.traceback else []
        return "\n".join([*lines, *(f"warning: {each}" for each in warnings)])

    @property
    def warnings_on_scores(self) -> list[str]:
        """The warnings but for those about annotations: they may explain a failed check."""
        return on_scores(self.warnings)

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


class EnvironmentPackage(Schema):
    """One package of a build, as locked."""

    name: str
    version: str
    sha256: list[str] = Field(description="SHA-256 of each wheel that may be installed, usually one")


class EnvironmentBuild(Schema):
    """One set of packages. It is immutable once it is ready."""

    number: int
    state: BuildState
    requirements: list[str] = Field(description="the requirements as they were sent")
    data: str = Field("", description="SHA-256 of the data beside the packages, as sent; empty: none")
    step: str = Field("", description="the current step while the state is `building`")
    reason: str | None = Field(None, description="why the build failed, and what to do")
    packages: list[EnvironmentPackage] = Field([], description="all installed packages, locked by hash")
    sha256: str = Field("", description="SHA-256 of the content once it is ready; equal builds share it")
    python: str = Field("", description="Python version of the build, such as 3.12")
    size_bytes: int = Field(0, description="size of all files, unpacked")
    files: int = 0
    created_at: datetime
    ended_at: datetime | None = None


class Environment(Schema):
    """A named set of packages of a project that graders may import."""

    project: str
    key: str
    build: int = Field(description="number of the newest build")
    state: BuildState = Field(description="state of the newest build")
    created_at: datetime
    updated_at: datetime
    builds: list[EnvironmentBuild] = Field(
        [], description="oldest first; lists and answers to changes contain only the newest"
    )

    @property
    def newest(self) -> EnvironmentBuild | None:
        """The newest build, if it is part of the response."""
        return next((build for build in self.builds if build.number == self.build), None)

    def __repr__(self) -> str:
        packages = f", {len(self.newest.packages)} packages" if self.newest and self.newest.packages else ""
        return self._in_brackets(f"{self.key}@{self.build} of project {self.project}: {self.state}{packages}")


class EnvironmentData(Schema):
    """Data that was uploaded, to be placed beside the packages of environments."""

    sha256: str = Field(description="SHA-256 of the zip file, which identifies the data")
    size_bytes: int = Field(description="size of all files, unpacked")
    files: int


class EnvironmentUse(Schema):
    """The build that a version of a grader runs in."""

    key: str
    build: int
    sha256: str = Field(description="SHA-256 of the content of the build")

    @property
    def label(self) -> str:
        """The environment and build as `KEY@BUILD`."""
        return f"{self.key}@{self.build}"

    def __str__(self) -> str:
        return self.label


_LIMITS = ("isolation", "isolation_asked", "timeout_s", "memory_mb")
_SETTINGS = ("kind", *_LIMITS, "environment", "asks", "pinned", "groups")


class Version(Schema):
    """One immutable source of a grader, and the config that it was generated from. Only kind `custom` has no source."""

    number: int
    kind: Kind = "function"
    sha256: str = Field(description="SHA-256 of the validated source, as UTF-8; for kind `custom`, of its config")
    source: str = Field(description="empty for kind `custom`, which is not run")
    config: dict[str, Any] | None = Field(
        None,
        description="settings from which the source is generated; null for kind `function`, `{}` for kind `custom`",
    )
    isolation: Literal["batch", "completion"] = Field(
        description="the isolation that applies; for `auto`, the one chosen"
    )
    isolation_asked: Isolation
    timeout_s: float
    memory_mb: int
    environment: EnvironmentUse | None = Field(
        None, description="environment with the packages that it may import; null: none"
    )
    asks: list[str] = Field([], description="what `grade` may ask: `model:KEY`, `endpoint:KEY`, `grader:KEY`")
    waits: bool = Field(
        True, description="whether its asks may have to wait; false if it only combines graders that ask nothing"
    )
    groups: bool = Field(False, description="whether a line is a group of threads, each with its own score")
    pinned: dict[str, str] = Field({}, description="version asked for each `grader:KEY`, as `KEY@NUMBER`")
    proved_with_stand_ins: bool = Field(False, description="whether stand-ins answered its asks in the test run")
    test_run_ms: float | None = Field(
        None, description="mean time of one thread in the test run, in ms; null if an earlier release checked it"
    )
    created_at: datetime
    warnings: list[str] = []

    def changes(self, newer: "Version") -> dict[str, tuple[object, object]]:
        """The settings that a newer version changed, such as `{"timeout_s": (5.0, 10.0)}`; not the source."""
        pairs = {name: (getattr(self, name), getattr(newer, name)) for name in _SETTINGS}
        old, new = self.config or {}, newer.config or {}
        pairs |= {f"config.{name}": (old.get(name), new.get(name)) for name in {**old, **new}}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def __repr__(self) -> str:
        where = f", environment {self.environment.label}" if self.environment else ""
        runs = f"{self.isolation} isolation, {self.timeout_s:g} s, {self.memory_mb} MiB{where}"
        return self._in_brackets(f"{self.number}: {self.kind}{'' if self.kind == 'custom' else f', {runs}'}")


def setting_text(value: object) -> str:
    """One side of `Version.changes` as one line of text."""
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, EnvironmentUse) or (isinstance(value, str) and value.isprintable()):
        return str(value)
    return to_json(value).decode()


_PATH = r"^(inputs|output|messages)(\.[^.\x00-\x1f]{1,100}){0,9}$"


class WeaveMapping(Schema):
    """Where Weave's calls hold the parts of a thread: paths of names and list positions, separated by dots. Paths that
    begin with `messages` apply to agent turns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    completion: str | None = Field(
        None, pattern=_PATH, description="path of the completion; null: `output`, if it is a text or a message"
    )
    prompt: str | None = Field(
        None, pattern=_PATH, description="path of the prompt; null: `inputs.messages`, if present"
    )
    metadata: str | None = Field(None, pattern=_PATH, description="path of an object; null: `inputs`")


class GraderRecord(Schema):
    """A named scoring rule of a project, with its newest version."""

    project: str
    key: str
    kind: Kind = Field("function", description="scores of a `custom` grader are recorded from outside")
    name: str
    description: str
    locked: bool
    version: int
    sha256: str
    isolation: Literal["batch", "completion"]
    timeout_s: float
    memory_mb: int
    test_threads: int = Field(0, description="number of stored test threads, which later proofs use")
    environment: EnvironmentUse | None = Field(
        None, description="environment with the packages that its newest version may import"
    )
    asks: list[str] = Field([], description="what its newest version may ask")
    groups: bool = Field(False, description="whether its newest version takes groups of threads")
    warnings: list[str] = Field([], description="warnings of the checks of its newest version")
    weave: WeaveMapping | None = Field(
        None, description="where calls of Weave hold the parts of a thread, as configured"
    )
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        isolation = "" if self.kind == "custom" else f", {self.isolation} isolation"
        about = f": {self.description}" if self.description else ""
        return self._in_brackets(f"{self.key}@{self.version} of project {self.project}, {self.kind}{isolation}{about}")

    def _repr_html_(self) -> str:
        return table_of([self], GRADER_COLUMNS)


# The columns of listings, by field name.
GRADER_COLUMNS = ("key", "kind", "version", "locked", "isolation", "environment", "updated_at", "description")
KEY_COLUMNS = ("id", "name", "projects", "role", "revoked", "created_at")
BATCH_COLUMNS = ("id", "state", "graders", "done", "total", "scored", "errors", "not_applicable", "created_at")


class BatchGrader(Schema):
    """One grader of a batch. The version is fixed when the batch is accepted."""

    key: str
    version: int
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.key}@{self.version}"


class HistogramBin(Schema):
    """Counts the scores from `low` up to `high`; the last bin includes its upper end."""

    low: float
    high: float
    count: int


class ValueSummary(Schema):
    """Statistics of the values that scores had under one name."""

    count: int
    mean: float | None
    minimum: float
    maximum: float


class SpentSummary(Schema):
    """The cost of a grader's asks over a batch."""

    asks: int
    kept: int = Field(description="asks answered with a kept reply, at no cost")
    input_tokens: int = Field(description="input tokens of all other asks, as counted by the servers")
    output_tokens: int
    cost: float = Field(description="in the currency of the models' prices; 0 if they have none")

    @property
    def cells(self) -> tuple[int | Money, ...]:
        """The values for a table, in the order of SPENT_COLUMNS."""
        return self.asks, self.kept, self.input_tokens, self.output_tokens, Money(self.cost)


SPENT_COLUMNS = tuple(SpentSummary.model_fields)


class Interval(Schema):
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95
    method: Literal["bca", "normal"] = Field(
        description="`bca`: bias-corrected and accelerated bootstrap; `normal`: normal approximation"
    )
    resamples: int | None = Field(None, description="number of bootstrap resamples")


class BiasCount(Schema):
    """Number of decisions made in both orders, and how many of them differ."""

    checked: int
    detected: int


class Summary(Schema):
    """Statistics of the scores of one grader over a batch.

    Quantiles and histogram are exact for up to 5,000 different scores. Beyond that they count neighbouring scores as
    equal, about 0.1 % of the scores at a time.
    """

    grader: str
    weight: float
    count: int = Field(description="number of outcomes, with or without a score")
    scored: int
    errors: dict[str, int] = Field(description="number of errors by kind")
    retryable: int | None = Field(
        None, description="number of errors that another try may mend; null if an earlier version did not count them"
    )
    not_applicable: int = Field(
        0, description="outcomes without score and error: the grader does not apply to the thread"
    )
    mean: float | None
    interval: Interval | None = Field(
        None, description="of the mean, by bootstrap if requested; null for a single score and for equal scores"
    )
    passed: int | None = Field(
        None, description="number of scores of at least 1; null if an earlier version did not count them"
    )
    pass_rate: float | None = Field(None, description="share of the scores that are at least 1")
    options: dict[str, int] = Field(
        {}, description="number of outcomes by `option` in `details`, for the first 16 options"
    )
    options_left_out: int = Field(
        0, description="outcomes with further options, or options of more than 100 characters"
    )
    positional_bias: BiasCount | None = Field(
        None, description="of judges that ask in both orders; null if no decision was made in both"
    )
    deviation: float | None = Field(description="population standard deviation")
    minimum: float | None
    maximum: float | None
    quantiles: dict[str, float] = Field(description="by name: p05, p25, p50, p75, p95")
    histogram: list[HistogramBin]
    run_ms_mean: float | None
    values: dict[str, ValueSummary] = Field(
        {}, description="statistics of the named values of the scores, for the first 16 names"
    )
    values_left_out: int = Field(0, description="number of values with further names")
    spent: SpentSummary | None = Field(None, description="cost of its asks; null if it asked nothing")
    warnings: list[str] = Field(description="why these scores may be useless as a reward for training")
    warning_kinds: list[WarningKind] = Field(
        [],
        description="kinds of the warnings, in the same order, for programs",
    )

    def __repr__(self) -> str:
        mean = "no mean" if self.mean is None else f"mean {number_text(self.mean)}"
        return self._in_brackets(f"{self.grader}: {mean}, {self.scored} of {self.count} scored")


class BatchBudget(Schema):
    """The budget of a batch for its asks, including all retries. Asks end when the first limit is reached."""

    cost: float | None = Field(None, description="limit in `currency`, for models with prices in it; null: no limit")
    tokens: int | None = Field(None, description="limit of input and output together; null: no limit")
    currency: str = "USD"


class FeedbackOf(Schema):
    """The subject of a batch of feedback. The reason of each of its outcomes is the feedback."""

    batch: str = Field(description="id of the batch whose outcomes get feedback")
    grader: str = Field(description="grader of these outcomes, with its version")
    model: str = Field(description="key of the model that writes the feedback")
    on: FeedbackOn = Field(
        "failures", description="`all` outcomes with a score, or only `failures`: those that are too low or wrong"
    )
    of: FeedbackTarget = Field("completion", description="what is to be improved: the completion, or the judge")
    threshold: float | None = Field(
        None,
        description="scores below it are failures; with labels, scores and labels from it on count as 1, others as 0",
    )
    labels: str | None = Field(
        None, description="source of the right scores: a grader of the batch, a field, or `given` with the request"
    )
    instructions: str | None = Field(None, description="further instructions for the model")


class AwaitedServer(Schema):
    """A model's or endpoint's server that a batch waits for: it does not answer, or it limits the rate of requests."""

    asked: str = Field(description="`model:small-judge` or `endpoint:my-reward`")
    kind: Literal["unreachable", "rate_limited"]
    seconds: int = Field(description="time since its last answer; or time until it accepts requests again")

    def __str__(self) -> str:
        said = "has not answered for" if self.kind == "unreachable" else "accepts no requests for"
        return f"{self.asked.replace(':', ' ')} {said} {self.seconds} s"


class Batch(Schema):
    """Threads to be scored by one or more graders."""

    id: str
    project: str
    state: BatchState
    graders: list[BatchGrader]
    threads: int
    total: int = Field(description="outcomes when finished: threads times graders")
    done: int = Field(description="outcomes so far that can be read")
    underway: int = Field(0, description="further outcomes, in unfinished chunks: they cannot be read yet")
    scored: int
    errors: dict[str, int]
    not_applicable: int = Field(0, description="outcomes with neither a score nor an error, among those done")
    created_by: str | None = Field(None, description="id of the API key that created it")
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    budget: BatchBudget | None = Field(
        None, description="budget of its asks; null if only the project's budget applies"
    )
    keep_replies: bool = Field(
        True, description="whether its asks may be answered with kept replies, and their replies are kept"
    )
    feedback_of: FeedbackOf | None = Field(None, description="for a batch of feedback: its subject")
    waits_for: list[AwaitedServer] = Field([], description="servers that do not accept its asks at the moment")
    trouble: str | None = Field(None, description="why it makes no progress: no worker of its queue runs")
    kept: bool = Field(False, description="whether it is excluded from deletion after the retention time")
    weighted_mean: float | None = Field(
        None, description="sum of weight times mean, not divided by the weights, as soon as every grader has scores"
    )
    summary: list[Summary] = Field([], description="one summary for each grader; of the outcomes so far while it runs")
    recorded: list[Summary] = Field(
        [], description="summaries of recorded scores: one for each grader of kind `custom` that has some"
    )
    summary_error: str | None = Field(None, description="why the summary of a grader is missing")

    def __repr__(self) -> str:
        return self._in_brackets(self.one_line)

    @property
    def one_line(self) -> str:
        """Its id, graders and state."""
        graders = ", ".join(map(str, self.graders))
        errors = f", {sum(self.errors.values())} of them errors" if self.errors else ""
        return f"{self.id} of {graders} {self.state}: {self.done} of {self.total} outcomes{errors}"

    @property
    def retryable(self) -> int | None:
        """Number of errors that another try may mend; None if a summary is missing or does not have it."""
        known = [one.retryable for one in self.summary if one.retryable is not None]
        return sum(known) if len(known) == len(self.graders) else None

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
        spent = [(one.grader, *one.spent.cells) for one in self.summary if one.spent]
        asked = table(("grader", *SPENT_COLUMNS), spent) if spent else ""
        return table((*columns, "warnings"), rows, caption) + asked


class ScoreAnswer(Schema):
    """The response of synchronous scoring: an outcome for each thread, in order."""

    outcomes: list[dict[str, Any]]
    summary: Summary | None
    summary_error: str | None = Field(None, description="why there is no summary")


class ApiKey(Schema):
    """An API key without its secret, which is shown once, when the key is created."""

    id: str
    name: str
    projects: list[str] = Field(description='"*" means every project')
    role: Role = Field("manage", description="what it may do there; `manage` for every project includes API keys")
    created_at: datetime
    revoked: bool
    secret: str | None = Field(None, description="the key to send; only in the answer that created it")


class SignInLink(Schema):
    """A link that signs a browser in to the web pages."""

    path: str = Field(description="path below the service's URL; valid once, within a day")


class Project(Schema):
    """A project separates the graders and batches of one team from those of others."""

    key: str
    name: str = ""
    description: str = ""
    created_at: datetime

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key}{f': {self.description}' if self.description else ''}")


class ModelDefaults(Schema):
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


class ProjectModel(Schema):
    """A model of a project, on any server with OpenAI's chat completions API. Its API key is never shown."""

    project: str
    key: str
    base_url: str
    model: str = Field(description="name of the model at the server")
    has_api_key: bool
    defaults: ModelDefaults
    timeout_s: float = Field(description="seconds for one complete reply")
    max_concurrency: int = Field(16, description="simultaneous requests of all workers together")
    requests_per_minute: int | None = Field(None, description="limit for all workers together; null: no limit")
    tokens_per_minute: int | None = Field(
        None, description="limit of input and output tokens for all workers together; null: no limit"
    )
    price: Price | None = Field(None, description="null: it costs nothing, or the price is unknown")
    keep_replies: bool = Field(True, description="whether replies are kept and reused for equal asks")
    structured_output: bool | None = Field(
        None, description="whether the server supports replies that fit a schema; null: not tested"
    )
    logprobs: bool | None = Field(None, description="whether the server returns log probabilities; null: not tested")
    tested_at: datetime | None = Field(None, description="time of the last passed test since it was changed")
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key} of project {self.project}: {self.model} at {self.base_url}")


class ModelFault(Schema):
    """Why a model gave no usable reply."""

    kind: ModelFailure
    message: str = Field(description="what happened, and what to do")
    retryable: bool = Field(description="whether the same request may succeed later")
    retry_after_s: float | None = Field(None, description="wait that the server requested")


class ModelTrial(Schema):
    """The result of a test of a model."""

    passed: bool
    error: ModelFault | None = None
    reply: str = Field("", description="beginning of the model's reply")
    structured_output: bool | None = None
    logprobs: bool | None = None
    duration_ms: float


class ProjectEndpoint(Schema):
    """An endpoint of a project: a reward server. Its API key is never shown."""

    project: str
    key: str
    url: str = Field(description="base URL, to which `/score` is appended")
    has_api_key: bool
    timeout_s: float = Field(description="seconds for one complete reply")
    max_concurrency: int = Field(16, description="simultaneous requests of all workers together")
    requests_per_minute: int | None = Field(None, description="limit for all workers together; null: no limit")
    tested_at: datetime | None = Field(None, description="time of the last passed test since it was changed")
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key} of project {self.project}: {self.url}")


class EndpointTrial(Schema):
    """The result of a test of an endpoint."""

    passed: bool
    error: ModelFault | None = None
    reward: float | None = Field(None, description="reward for the thread that was sent")
    duration_ms: float


class ProjectBudget(Schema):
    """A project's budget for asks, and how much of it is spent."""

    cost: float | None = Field(None, description="limit in `currency`; null: no limit")
    tokens: int | None = Field(None, description="limit of input and output together; null: no limit")
    currency: str = "USD"
    period: BudgetPeriod = Field("total", description="period, in UTC, after which spending is counted from 0 again")
    spent_cost: float = Field(description="cost in this period, of models with prices in `currency`")
    spent_tokens: int = Field(description="tokens in this period, of all models")
    is_spent: bool = Field(description="whether the budget is used up, so that nothing more is asked")
    not_limited: list[str] = Field(
        default_factory=list, description="models without a price in `currency`, which `cost` does not limit"
    )


class Spending(Schema):
    """The cost of asks."""

    asks: int
    kept: int = Field(description="asks answered with a kept reply, at no cost")
    input_tokens: int
    output_tokens: int
    costs: dict[str, float] = Field(description="cost by currency, of models that have a price")


class ProjectSpending(Schema):
    """The cost of the asks of a project."""

    total: Spending
    by: dict[str, Spending] = Field(
        description="spending of each `model:…`, `endpoint:…` and `grader:…`; only for all time, not for a day or month"
    )


class AuditLine(Schema):
    """One change: its author, action, object, time and client address."""

    id: str = Field(description="id from which to read on")
    at: datetime
    key: str = Field(description="id of the API key")
    address: str = Field(description="address of the client")
    request_id: str
    action: str = Field(description="kind of change, such as grader.update or batch.cancel")
    object: str = Field(description="key of the grader, or id of the batch or API key")
    detail: str = Field(description="further details, such as the new version")


class Problem(BaseModel):
    """An error of the API (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="stable identifier; its last part names the problem, such as validation-failed")
    title: str
    status: int
    detail: str = Field(description="what happened, to what, and what to do")
    request_id: str
