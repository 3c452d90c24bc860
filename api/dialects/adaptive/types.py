"""The GraphQL output types of graders, projects and users."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import strawberry
from strawberry.scalars import JSON

from api.access.auth import may
from api.dialects.adaptive import ids
from api.dialects.adaptive.config_types import GraderConfig, Model
from api.dialects.adaptive.enums import (
    GraderTypeEnum,
    MetricKind,
    MetricScoringType,
    RemoteEnvStatus,
)
from api.dialects.adaptive.query_context import QueryContext
from api.dialects.adaptive.scalars import Timestamp, timestamp
from gradebox import schemas

Info = strawberry.Info[QueryContext, None]


@strawberry.type
class ModelService:
    """A model of a project. There are none here."""

    id: UUID
    key: str
    name: str
    model: Model
    is_default: bool
    desired_online: bool
    created_at: Timestamp


@strawberry.type
class MetricWithContext:
    """A metric, as its project lists it."""

    id: UUID
    key: str | None
    name: str
    kind: MetricKind
    description: str
    scoring_type: MetricScoringType
    created_at: datetime


@strawberry.type
class Team:
    """A team. There are none here: API keys cover projects."""

    id: UUID
    key: str
    name: str
    created_at: Timestamp


@strawberry.type
class Role:
    """The role of a team."""

    id: UUID
    key: str
    name: str
    created_at: Timestamp
    permissions: list[str]


@strawberry.type
class ProjectShare:
    """A team that shares a project."""

    team: Team
    role: Role
    is_owner: bool


@strawberry.type
class Project:
    """A project, as an API key sees it."""

    kept: strawberry.Private[schemas.Project]
    id: UUID
    key: str
    name: str
    description: str
    created_at: Timestamp

    @strawberry.field
    def metrics(self, info: Info) -> list[MetricWithContext]:
        """The project's metrics, one for each grader."""
        return [
            MetricWithContext(
                id=ids.of_metric(grader),
                key=grader.key,
                name=grader.key,
                kind=metric_kind(grader),
                description=grader.description,
                scoring_type=MetricScoringType.HIGHER_IS_BETTER,
                created_at=grader.created_at,
            )
            for grader in info.context.graders(self.kept)
        ]

    @strawberry.field
    def model_services(self) -> list[ModelService]:
        """Always empty: gradebox runs no models."""
        return []

    @strawberry.field
    def permissions(self, info: Info) -> list[str]:
        """The roles that the API key has here."""
        return [role for role in schemas.ROLES if may(info.context.key, role)]

    @strawberry.field
    def shares(self) -> list[ProjectShare]:
        """Always empty: there are no teams."""
        return []


@strawberry.input
class ProjectFilter:
    """A filter of projects."""

    is_archived: bool | None = None


@strawberry.type
class Metric:
    """The scores of one grader."""

    grader: strawberry.Private[schemas.GraderRecord]
    id: UUID
    key: str | None
    name: str
    kind: MetricKind
    description: str
    scoring_type: MetricScoringType
    created_at: Timestamp
    has_direct_scores: bool = False
    has_comparison_scores: bool = False

    @strawberry.field
    def projects(
        self,
        info: Info,
        filter: ProjectFilter = ProjectFilter(is_archived=False),  # noqa: B008  # never changed
    ) -> list[Project]:
        """The project of the metric's grader. No project is ever archived."""
        found = info.context.find_project(self.grader.project)
        return [project(found)] if found is not None and not filter.is_archived else []


@strawberry.type
class Grader:
    """A grader with its newest version."""

    id: UUID
    name: str
    key: str | None
    locked: bool
    grader_type: GraderTypeEnum
    grader_config: GraderConfig
    project: Project
    metric: Metric
    created_at: Timestamp
    updated_at: Timestamp


@strawberry.type
class ValidationCheck:
    """One of the five checks."""

    name: str
    passed: bool
    message: str


@strawberry.type
class ValidationResult:
    """The results of the five checks."""

    valid: bool
    checks: list[ValidationCheck]
    warnings: list[str]


@strawberry.type
class DeleteConfirm:
    """The confirmation that a grader was deleted."""

    success: bool
    details: str | None = None


@strawberry.type
class RemoteEnvTestOffline:
    """A reward server that could not be reached or is invalid, with the reason."""

    error: str


@strawberry.type
class RemoteEnvTestOnline:
    """The description of a reward server."""

    name: str
    version: str
    description: str


RemoteEnvTest = Annotated[RemoteEnvTestOffline | RemoteEnvTestOnline, strawberry.union("RemoteEnvTest")]


@strawberry.type
class RemoteEnv:
    """A registered environment. There are none here."""

    id: UUID
    key: str
    name: str
    url: str
    description: str
    created_at: Timestamp
    version: str
    status: RemoteEnvStatus
    metadata_schema: JSON | None


@strawberry.type
class UserTeam:
    """A team of a user."""

    team: Team
    role: Role


@strawberry.type
class User:
    """The holder of the API key, as adaptive-sdk sees a user."""

    id: UUID
    email: str
    name: str
    created_at: Timestamp
    teams: list[UserTeam]


def metric_kind(grader: schemas.GraderRecord) -> MetricKind:
    """BOOL for binary judges, which pass or fail; else SCALAR."""
    return MetricKind.BOOL if grader.kind == "binary_judge" else MetricKind.SCALAR


def project(kept: schemas.Project) -> Project:
    """Converts a project to the SDK's type."""
    return Project(
        kept=kept,
        id=ids.of_project(kept),
        key=kept.key,
        name=kept.name or kept.key,
        description=kept.description,
        created_at=timestamp(kept.created_at),
    )


def metric(grader: schemas.GraderRecord) -> Metric:
    """The metric of a grader's scores."""
    return Metric(
        grader=grader,
        id=ids.of_metric(grader),
        key=grader.key,
        name=grader.key,
        kind=metric_kind(grader),
        description=grader.description,
        scoring_type=MetricScoringType.HIGHER_IS_BETTER,
        created_at=timestamp(grader.created_at),
    )
