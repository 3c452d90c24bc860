"""Projects, which separate the graders and batches of teams."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Project
from storage import redis_keys
from storage.access.api_keys import EVERY_PROJECT
from storage.access.audit import Audit
from storage.access.own_limits import OwnLimits
from storage.access.quotas import Quotas
from storage.connection import transaction
from storage.errors import Conflict, no_project

DEFAULT = "default"


class Projects:
    """All projects of this deployment."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas

    def create(self, key: str, name: str = "", description: str = "") -> Project:
        """Creates a project. Without a name, its key is its name.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the quota of projects is reached.
        """
        project = Project(key=key, name=name or key, description=description, created_at=datetime.now(UTC))

        def create(pipe: Pipeline) -> None:
            if pipe.hexists(redis_keys.PROJECTS, key):
                raise Conflict(f"there is a project {key!r} already: use it, or choose another key")
            self._quotas.check_projects(pipe.hlen(redis_keys.PROJECTS))
            pipe.multi()
            pipe.hset(redis_keys.PROJECTS, key, project.model_dump_json())
            self._audit.write(pipe, EVERY_PROJECT, "project.create", key)

        transaction(self._redis, create, redis_keys.PROJECTS)
        return project

    def ensure(self, key: str) -> None:
        """Creates a project if there is none with that key."""
        if self._redis.hexists(redis_keys.PROJECTS, key):  # a Redis that is full or read-only can be read
            return
        project = Project(key=key, name=key, created_at=datetime.now(UTC))
        self._redis.hsetnx(redis_keys.PROJECTS, key, project.model_dump_json())

    def covered(self, keys: Sequence[str]) -> list[Project]:
        """The projects with these keys, or all if EVERY_PROJECT is among them, sorted by key."""
        found: Any = (
            self._redis.hvals(redis_keys.PROJECTS)
            if EVERY_PROJECT in keys
            else self._redis.hmget(redis_keys.PROJECTS, {*keys})
        )
        there = (Project.model_validate_json(value) for value in found if value is not None)
        return sorted(there, key=lambda project: project.key)

    def set_limits(self, key: str, changes: OwnLimits | None) -> Project:
        """Changes these of a project's own limits, and keeps the others; or removes all, if `changes` is None.

        Raises NotFound if there is no such project.
        """

        def change(pipe: Pipeline) -> Project:
            found = pipe.hget(redis_keys.PROJECTS, key)
            if found is None:
                raise no_project(key)
            project = Project.model_validate_json(found)
            limits = {} if changes is None else {**project.limits, **changes}
            project = project.model_copy(update={"limits": limits})
            pipe.multi()
            pipe.hset(redis_keys.PROJECTS, key, project.model_dump_json())
            if changes is None:
                self._audit.write(pipe, key, "limits.delete", key)
            else:
                self._audit.write(pipe, key, "limits.update", key, msgspec.json.encode(changes).decode())
            return project

        return transaction(self._redis, change, redis_keys.PROJECTS)

    def check(self, key: str) -> None:
        """Raises NotFound if there is no such project."""
        if not self._redis.hexists(redis_keys.PROJECTS, key):
            raise no_project(key)
