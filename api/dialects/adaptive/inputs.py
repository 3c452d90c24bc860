"""The GraphQL input types of the SDK."""

from uuid import UUID

import strawberry
from strawberry.scalars import JSON

from api.dialects.adaptive.enums import GraderTypeEnum, MetricKind, MetricScoringType, PrebuiltCriteriaKey


@strawberry.input
class JudgeExampleInputTurnEntry:
    """One turn."""

    role: str
    content: str


@strawberry.input
class JudgeExampleInput:
    """An example of a judge."""

    input: list[JudgeExampleInputTurnEntry]
    reasoning: str | None = None
    output: str
    passes: bool = strawberry.field(name="pass")
    id: UUID | None = None


@strawberry.input
class JudgeConfigInput:
    """A judge."""

    model: str
    criteria: str
    examples: list[JudgeExampleInput]
    system_template: str
    user_template: str


@strawberry.input
class PrebuiltConfigInput:
    """A judge that is built into the platform."""

    key: PrebuiltCriteriaKey
    model: str


@strawberry.input
class RemoteConfigInput:
    """An external reward server."""

    url: str


@strawberry.input
class CustomConfigInput:
    """A grader that is not run."""

    description: str | None = None


@strawberry.input
class FunctionConfigInput:
    """A function."""

    source_code: str
    description: str | None = None


@strawberry.input
class GraderConfigInput:
    """Exactly one of the configurations."""

    judge: JudgeConfigInput | None = None
    prebuilt: PrebuiltConfigInput | None = None
    remote: RemoteConfigInput | None = None
    custom: CustomConfigInput | None = None
    function: FunctionConfigInput | None = None


@strawberry.input
class MetricCreate:
    """The metric of a new grader."""

    name: str
    key: str | None = None
    kind: MetricKind
    scoring_type: MetricScoringType = MetricScoringType.HIGHER_IS_BETTER
    description: str | None = None
    unit: str | None = None


@strawberry.input
class GraderCreateInput:
    """A new grader."""

    name: str
    key: str | None = None
    grader_type: GraderTypeEnum
    grader_config: GraderConfigInput
    metric: MetricCreate | None = None


@strawberry.input
class GraderUpdateInput:
    """The changes of a grader."""

    name: str | None = None
    grader_type: GraderTypeEnum | None = None
    grader_config: GraderConfigInput | None = None


@strawberry.input
class RemoteEnvCreate:
    """An external reward server."""

    url: str
    key: str | None = None
    name: str | None = None
    description: str | None = None


@strawberry.input
class ProjectSettingsInput:
    """Settings of a new project."""

    default_metric: str | None = None


@strawberry.input
class ProjectCreate:
    """A new project."""

    name: str
    team: str | None = None
    key: str | None = None
    description: str | None = None
    gradient_color: str | None = None
    metadata: JSON | None = None
    settings: ProjectSettingsInput | None = None
    widgets: JSON | None = None


@strawberry.input
class ProjectShareInput:
    """A team to share a project with."""

    team: str
    role: str
    is_owner: bool


@strawberry.input
class ProjectShares:
    """All teams to share a project with."""

    shares: list[ProjectShareInput]
