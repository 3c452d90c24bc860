"""The SDK's GraphQL queries."""

from contextlib import suppress

import strawberry

from api.dialects.adaptive import configs, ids, types
from api.dialects.adaptive.query_context import size_of
from api.dialects.adaptive.scalars import IdOrKey, timestamp
from api.dialects.adaptive.types import Info
from gradebox import schemas
from storage.errors import NotFound


@strawberry.type
class Query:
    """Reads, which change nothing."""

    @strawberry.field
    def grader(self, info: Info, id: IdOrKey, project: IdOrKey) -> types.Grader | None:
        """One grader. A missing one is an error, because the SDK cannot parse null."""
        found = info.context.project(project, "read")
        return shown(info, found, info.context.grader(found, id))

    @strawberry.field
    def graders(self, info: Info, project: IdOrKey) -> list[types.Grader]:
        """All graders of a project, by key."""
        found = info.context.project(project, "read")
        listed: list[types.Grader] = []
        for grader in info.context.graders(found):
            with suppress(NotFound):  # deleted meanwhile
                listed.append(shown(info, found, grader))
        return listed

    @strawberry.field
    def project(self, info: Info, id_or_key: IdOrKey) -> types.Project | None:
        """One project, or null."""
        found = info.context.find_project(id_or_key)
        return types.project(found) if found is not None else None

    @strawberry.field
    def projects(self, info: Info) -> list[types.Project]:
        """The projects that the API key covers."""
        return [types.project(project) for project in info.context.projects]

    @strawberry.field
    def metric(self, info: Info, metric_id_or_key: IdOrKey, project_id_or_key: IdOrKey) -> types.Metric | None:
        """The metric of one grader, or null."""
        found = info.context.project(project_id_or_key, "read")
        graders = info.context.graders(found)
        ref = str(metric_id_or_key)
        named = (one for one in graders if ref == one.key or ref.lower() == str(ids.of_metric(one)))
        return next((types.metric(one) for one in named), None)

    @strawberry.field
    def metrics(self, info: Info) -> list[types.Metric]:
        """The metrics of all graders that the API key covers."""
        found = (info.context.graders(project) for project in info.context.projects)
        return [types.metric(grader) for graders in found for grader in graders]

    @strawberry.field
    def remote_envs(self) -> list[types.RemoteEnv]:
        """Always empty: external endpoints are graders here."""
        return []

    @strawberry.field
    def me(self, info: Info) -> types.User | None:
        """The holder of the API key, who has a name and no e-mail address."""
        key = info.context.key
        return types.User(id=ids.of_user(key), email="", name=key.name, created_at=timestamp(key.created_at), teams=[])


def shown(info: Info, project: schemas.Project, grader: schemas.GraderRecord) -> types.Grader:
    """A grader with its newest version. Raises NotFound."""
    version = info.context.services.store.graders.version(project.key, grader.key, grader.version)
    info.context.tell(len(version.source) + size_of(version.config or {}))
    return configs.grader(project, grader, version, info.context.registered(project))
