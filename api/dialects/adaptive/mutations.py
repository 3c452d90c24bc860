"""The SDK's GraphQL mutations."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import strawberry
from strawberry.scalars import JSON

from api.access.auth import require, require_operator
from api.dialects.adaptive import configs, types
from api.dialects.adaptive.enums import MetricScoringType
from api.dialects.adaptive.inputs import (
    CustomConfigInput,
    FunctionConfigInput,
    GraderCreateInput,
    GraderUpdateInput,
    JudgeConfigInput,
    MetricCreate,
    PrebuiltConfigInput,
    ProjectCreate,
    ProjectShares,
    RemoteConfigInput,
    RemoteEnvCreate,
)
from api.dialects.adaptive.project_servers import endpoint_at
from api.dialects.adaptive.queries import shown
from api.dialects.adaptive.reward_info import described
from api.dialects.adaptive.scalars import IdOrKey
from api.dialects.adaptive.types import Info
from api.http.problems import invalid
from api.intake import bodies
from api.intake.source_upload import Options, Sent, written
from api.routes.graders import NewGrader, NewVersion, create_function, update_function
from api.routes.projects import NewProject
from api.routes.validate import report_on
from api.services import Services
from gradebox.schemas import Check, GraderRecord, Project, Version
from storage.errors import Conflict
from storage.graders.grader_content import CUSTOM

_Runnable = FunctionConfigInput | JudgeConfigInput | PrebuiltConfigInput | RemoteConfigInput


@strawberry.type
class Mutation:
    """Changes. Each calls the function of one of our own routes."""

    @strawberry.mutation
    def validate_function_grader(
        self, info: Info, project: IdOrKey, code: str, test_sample: JSON | None = None
    ) -> types.ValidationResult:
        """Run the five checks; `testSample` is the thread of the test run."""
        found = info.context.project(project, "score")
        threads = None if test_sample is None else [msgspec.json.encode(test_sample)]
        report = report_on(info.context.caller_in(found), info.context.services, _source(code, threads), Options())
        checks = [types.ValidationCheck(name=one.name, passed=one.passed, message=_text(one)) for one in report.checks]
        return types.ValidationResult(valid=report.valid, checks=checks, warnings=report.warnings)

    @strawberry.mutation
    def create_grader(self, info: Info, project: IdOrKey, input: GraderCreateInput) -> types.Grader:
        """Store a new grader. One that can be run is proved first."""
        context, found = info.context, info.context.project(project, "manage")
        if input.key is None:
            raise invalid("a grader has a key: 1-64 of a-z 0-9 . _ - and starting with a letter or digit")
        _check_metric(input.metric)
        config = configs.read(input.grader_config, input.grader_type)
        fields = {"key": input.key, "name": input.name, "description": _description(config)}
        new = bodies.convert(fields, NewGrader)
        if isinstance(config, CustomConfigInput):
            texts = new.name or new.key, new.description or ""
            grader = context.services.store.graders.create(found.key, new.key, *texts, CUSTOM)
        else:
            with _written(context.services, found.key, new.key, config, None) as sent:
                grader = create_function(context.caller_in(found), context.services, sent, new)
        return shown(info, found, grader)

    @strawberry.mutation
    def update_grader(self, info: Info, project: IdOrKey, id: IdOrKey, input: GraderUpdateInput) -> types.Grader:
        """Change what is sent. Another source or config is a new version."""
        found = info.context.project(project, "manage")
        grader = info.context.grader(found, id)
        if input.grader_type is not None and input.grader_type is not configs.type_of(grader.kind):
            raise Conflict(
                f"grader {grader.key!r} has another type, which cannot change: create a new one under another key"
            )
        return shown(info, found, _update(info, found, grader, input))

    @strawberry.mutation
    def delete_grader(self, info: Info, project: IdOrKey, id: IdOrKey) -> types.DeleteConfirm:
        """Delete a grader. If it is missing or locked, this is an error."""
        found = info.context.project(project, "manage")
        grader = info.context.grader(found, id)
        info.context.services.store.graders.delete(found.key, grader.key)
        return types.DeleteConfirm(success=True)

    @strawberry.mutation
    def lock_grader(self, info: Info, project: IdOrKey, id: IdOrKey, locked: bool) -> types.Grader:
        """Lock or unlock a grader."""
        found = info.context.project(project, "manage")
        grader = info.context.grader(found, id)
        changed = info.context.services.store.graders.describe(found.key, grader.key, {"locked": locked})
        return shown(info, found, changed)

    @strawberry.mutation
    def test_remote_env(self, info: Info, input: RemoteEnvCreate) -> types.RemoteEnvTest:
        """Request a reward server's description, if the operator allows its host."""
        require(info.context.key, "manage")
        return asyncio.run(described(input.url, info.context.services.models))

    @strawberry.mutation
    def add_remote_env(self, input: RemoteEnvCreate) -> types.RemoteEnv:
        """Always refused: an external endpoint is a grader here."""
        raise invalid("gradebox has no separate environments: use `graders.create.external_endpoint`")

    @strawberry.mutation
    def remove_remote_env(self, id_or_key: IdOrKey) -> str:
        """Always refused: there are no environments."""
        raise invalid("gradebox has no separate environments: delete the grader with `graders.delete`")

    @strawberry.mutation
    def create_metric(self, project: IdOrKey, input: MetricCreate) -> types.Metric:
        """Always refused: each grader has one metric, and there are no others."""
        raise invalid("gradebox has exactly one metric for each grader: create a grader of that key")

    @strawberry.mutation
    def create_project(self, info: Info, input: ProjectCreate) -> types.Project:
        """Create a project. Fields that only a web page would show are not stored."""
        require_operator(info.context.key)
        if input.team is not None:
            raise invalid("gradebox has no teams: leave out `team`, and create API keys for the project instead")
        if input.settings is not None and input.settings.default_metric is not None:
            raise invalid("gradebox has no default metric: leave it out, and name the grader of each batch")
        fields = {"key": input.key, "name": input.name, "description": input.description or ""}
        new = bodies.convert(fields, NewProject)
        return types.project(info.context.services.store.projects.create(new.key, new.name, new.description))

    @strawberry.mutation
    def share_project(self, id_or_key: IdOrKey, input: ProjectShares) -> types.Project:
        """Always refused: there are no teams."""
        raise invalid(
            "gradebox has no teams to share a project with: make an API key that covers it, as with "
            f"`gradebox keys create NAME --covers {id_or_key}`"
        )


def _update(info: Info, project: Project, grader: GraderRecord, wanted: GraderUpdateInput) -> GraderRecord:
    services, config = info.context.services, None
    if wanted.grader_config is not None:
        config = configs.read(wanted.grader_config, configs.type_of(grader.kind))
    if isinstance(config, JudgeConfigInput) and grader.kind == "judge":
        raise Conflict(
            f"grader {grader.key!r} chooses among options, which a judge's config here lacks: it would become a judge "
            "that passes or fails. Update it with gradebox's client or PUT, or create a new one under another key"
        )
    new = bodies.convert({"name": wanted.name, "description": _description(config)}, NewVersion)
    if isinstance(config, _Runnable):
        newest = services.store.graders.version(grader.project, grader.key)
        with _written(services, grader.project, grader.key, config, newest) as sent:
            return update_function(info.context.caller_in(project), services, grader.key, sent, new)
    if config is not None:
        grader = services.store.graders.update(grader.project, grader.key, CUSTOM)
    changes = {name: text for name in ("name", "description") if (text := getattr(new, name)) is not None}
    return services.store.graders.describe(grader.project, grader.key, changes) if changes else grader


@contextmanager
def _written(services: Services, project: str, key: str, config: _Runnable, newest: Version | None) -> Iterator[Sent]:
    """Yields the source of a grader that can be run, while the block proves and stores it. Settings that the SDK does
    not have stay as in the newest version.
    """
    if isinstance(config, FunctionConfigInput):
        yield _source(config.source_code)
    elif isinstance(config, RemoteConfigInput):
        with endpoint_at(services, project, config.url, key) as endpoint:
            yield written("external", {"endpoint": endpoint})
    else:
        kind, settings = configs.judge(config)
        sampling = configs.sampling(config.model, services.store.models.all(project))
        kept = newest.config if newest is not None and newest.kind == kind else None
        yield written(kind, {**sampling, **(kept or {}), **settings})


def _source(code: str, threads: list[bytes] | None = None) -> Sent:
    return Sent(code.encode("utf-8", "surrogatepass"), threads=threads)


def _description(config: Any) -> str | None:
    return config.description if isinstance(config, FunctionConfigInput | CustomConfigInput) else None


def _check_metric(metric: MetricCreate | None) -> None:
    if metric is not None and metric.scoring_type is MetricScoringType.LOWER_IS_BETTER:
        raise invalid("scores are higher-is-better here: leave out `scoringType`, and negate what the grader returns")


def _text(check: Check) -> str:
    """A check's message with its line and traceback, because the SDK shows nothing else."""
    where = f" (line {check.line})" if check.line and f"line {check.line}" not in check.message else ""
    return f"{check.message}{where}\n{check.traceback}" if check.traceback else f"{check.message}{where}"
