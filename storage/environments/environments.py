"""Environments of projects. A finished build never changes, and its number is never reused."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Environment, EnvironmentBuild, EnvironmentUse, Version
from storage import redis_keys
from storage.access.audit import Audit
from storage.access.quotas import Quotas
from storage.connection import seconds, text, transaction
from storage.environments import environment_builds as queue
from storage.environments import environment_records as records
from storage.environments.environment_archives import KEPT_S
from storage.errors import Conflict, NotFound, Refused

_KEPT_NUMBERS = 1000  # of deleted environments
_T = TypeVar("_T")
_FLOOR = ""  # field with the highest of the numbers that are no longer stored


class _Use(msgspec.Struct):
    key: str
    build: int


class _Version(msgspec.Struct):
    """The field of a stored version that is used."""

    environment: _Use | None = None


class Environments:
    """The environments of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas

    def create(self, project: str, key: str, packages: Sequence[str], data: str = "") -> Environment:
        """Creates an environment and queues its first build. `data` is the SHA-256 of data of the project.

        Raises:
            Conflict: the key is taken.
            NotFound: there is no such data.
            Refused: there are neither packages nor data.
            QuotaExceeded: the project has reached its quota of builds, or of builds at once.
        """

        def create(pipe: Pipeline) -> Environment:
            if pipe.hexists(redis_keys.environments(project), key):
                raise Conflict(
                    f"there is an environment {key!r} in project {project!r} already: "
                    "update it to make a new build, or choose another key"
                )
            own, floor = pipe.hmget(redis_keys.build_numbers(project), [key, _FLOOR])
            number = int(own or floor or 0) + 1
            self._check(pipe, project, packages, data)
            now = datetime.now(UTC)
            environment = Environment(
                project=project, key=key, build=number, state="building", created_at=now, updated_at=now
            )
            pipe.multi()
            return self._begin(pipe, environment, packages, data, "environment.create")

        return self._change(project, create, redis_keys.build_numbers(project), redis_keys.environment_data(project))

    def update(
        self,
        project: str,
        key: str,
        packages: Sequence[str] | None,
        data: str | None = None,
        unusable: int | None = None,
    ) -> Environment:
        """Queues a new build, unless the newest one has the same content, has not failed and is not number `unusable`.
        For packages and data, None keeps the current value. If the project has as many builds as it may, the new one
        replaces one of this environment that no version of a grader names: the oldest failed one, else the oldest one.

        Raises:
            NotFound: there is no such environment, or no such data.
            Conflict: its newest build is being made.
            Refused, QuotaExceeded: as for `create`.
        """

        def update(pipe: Pipeline) -> Environment:
            environment = records.read(pipe, project, key)
            newest = records.read_build(pipe, environment, environment.build)
            wanted = newest.packages if packages is None else list(packages)
            beside = newest.data if data is None else data
            is_usable = newest.state != "failed" and newest.number != unusable
            if (newest.packages, newest.data) == (wanted, beside) and is_usable:
                pipe.multi()
                return environment.model_copy(update={"builds": [newest]})
            if newest.state == "building":
                raise Conflict(f"environment {key}@{newest.number} is being built: wait until that is over")
            replaced = self._replaceable(pipe, environment)
            self._check(pipe, project, wanted, beside, replaced)
            pipe.multi()
            if replaced:
                self._forget(pipe, environment, replaced)
            changed = environment.model_copy(
                update={"build": newest.number + 1, "state": "building", "updated_at": datetime.now(UTC)}
            )
            return self._begin(pipe, changed, wanted, beside, "environment.update")

        watched = redis_keys.builds(project, key), redis_keys.environment_data(project)
        return self._change(project, update, *watched, redis_keys.environment_uses(project))

    def _begin(
        self, pipe: Pipeline, environment: Environment, packages: Sequence[str], data: str, action: str
    ) -> Environment:
        project, key, number = environment.project, environment.key, environment.build
        build = EnvironmentBuild(
            number=number,
            state="building",
            packages=list(packages),
            data=data,
            step="waiting",
            created_at=datetime.now(UTC),
        )
        records.write(pipe, environment, build)
        # The oldest is made first.
        pipe.zadd(redis_keys.BUILDS, {queue.member(project, key, number): seconds(self._redis)})
        items = [*packages, *([f"data {data}"] if data else [])]
        self._audit.write(pipe, project, action, key, f"build {number}: {', '.join(items)}"[:1000])
        return environment.model_copy(update={"builds": [build]})

    def _check(
        self,
        pipe: Pipeline,
        project: str,
        packages: Sequence[str],
        data: str,
        replaced: Sequence[EnvironmentBuild] = (),
    ) -> None:
        """Checks that the project may have one more build of these packages and this data, without those that it
        replaces.
        """
        if not packages and not data:
            raise Refused("there is nothing to build: name a package, such as sympy==1.14, or data")
        if data and not pipe.hexists(redis_keys.environment_data(project), data):
            raise NotFound(f"project {project!r} has no data with the SHA-256 {data}: upload it first, it may be gone")
        found = {
            text(key): Environment.model_validate_json(value)
            for key, value in pipe.hgetall(redis_keys.environments(project)).items()
        }
        # Only the newest build of an environment can be in progress.
        building = sum(environment.state == "building" for environment in found.values())
        deleted = int(pipe.zcount(redis_keys.deleted_builds(project), seconds(pipe) - KEPT_S, "+inf"))
        there = self._count(project, found) - len(replaced)
        self._quotas.check_builds(project, there, building, deleted)

    def _count(self, project: str, keys: Iterable[str]) -> int:
        """The number of builds of these environments."""
        with self._redis.pipeline(transaction=False) as counting:  # each new or deleted build changes a watched key
            for key in keys:
                counting.hlen(redis_keys.builds(project, key))
            return sum(counting.execute())

    def _replaceable(self, pipe: Pipeline, environment: Environment) -> list[EnvironmentBuild]:
        """The build that a new one replaces. Empty if there is room for one more, or each is named by a version of a
        grader or the newest.
        """
        project, key = environment.project, environment.key
        keys = [text(each) for each in pipe.hkeys(redis_keys.environments(project))]
        if self._count(project, keys) < self._quotas.builds:
            return []
        named = {environment.build, *self._named(pipe, project, key)}
        old = [build for build in records.read_builds(pipe, project, key) if build.number not in named]
        return sorted(old, key=lambda build: (build.state != "failed", build.number))[:1]

    def _named(self, pipe: Pipeline, project: str, key: str) -> Iterator[int]:
        """The numbers of the builds that versions of graders name. The transaction is repeated if one is added."""
        for use in map(text, pipe.smembers(redis_keys.environment_uses(project))):
            environment, _, grader = use.partition("/")
            if environment != key:
                continue
            name = redis_keys.versions(project, grader)
            pipe.watch(name)  # type: ignore[no-untyped-call]  # redis-py lacks the types
            for _, value in pipe.hscan_iter(name, count=50):
                used = msgspec.json.decode(value, type=_Version).environment
                if used is not None and used.key == key:
                    yield used.build

    def _forget(self, pipe: Pipeline, environment: Environment, builds: Sequence[EnvironmentBuild]) -> None:
        """Removes builds. Their contents are kept for a day."""
        project, key = environment.project, environment.key
        deleted, now = redis_keys.deleted_builds(project), seconds(self._redis)
        pipe.hdel(redis_keys.builds(project, key), *(str(build.number) for build in builds))
        pipe.hincrby(redis_keys.STORED, project, -sum(build.size_bytes for build in builds))
        pipe.zremrangebyscore(deleted, "-inf", now - KEPT_S)
        pipe.zadd(deleted, dict.fromkeys([f"{key}/{build.number}" for build in builds], now))
        pipe.expire(deleted, int(KEPT_S) + 1)
        if contents := {build.sha256 for build in builds} - {""}:
            # A batch that is being accepted at this moment may still need them.
            pipe.zadd(redis_keys.ARCHIVES, dict.fromkeys(contents, now))

    def get(self, project: str, key: str) -> Environment:
        """One environment with all of its builds. Raises NotFound."""
        environment = records.read(self._redis, project, key)
        return environment.model_copy(update={"builds": records.read_builds(self._redis, project, key)})

    def newest(self, project: str, key: str) -> EnvironmentBuild:
        """The newest build of an environment. Raises NotFound."""
        environment = records.read(self._redis, project, key)
        return records.read_build(self._redis, environment, environment.build)

    def all(self, project: str) -> list[Environment]:
        """The environments of a project, sorted by key, each with its newest build."""
        found = map(Environment.model_validate_json, self._redis.hvals(redis_keys.environments(project)))
        listed = []
        for environment in sorted(found, key=lambda each: each.key):
            value = self._redis.hget(redis_keys.builds(project, environment.key), str(environment.build))
            if value is not None:  # else it was deleted meanwhile
                build = EnvironmentBuild.model_validate_json(value)
                listed.append(environment.model_copy(update={"builds": [build]}))
        return listed

    def usable(self, project: str, key: str, number: int | None = None) -> tuple[EnvironmentUse, EnvironmentBuild]:
        """The build that a grader is to run in: build `number`, or the newest.

        Raises:
            NotFound: there is no such environment, or no such build of it.
            Conflict: the build is not ready.
        """
        environment = records.read(self._redis, project, key)
        build = records.read_build(self._redis, environment, number or environment.build)
        if build.state != "ready":
            raise Conflict(self._why_not(environment, build))
        return EnvironmentUse(key=key, build=build.number, sha256=build.sha256), build

    def _why_not(self, environment: Environment, build: EnvironmentBuild) -> str:
        """The reason why a build cannot be used, and what to do."""
        label = f"{environment.key}@{build.number}"
        builds = records.read_builds(self._redis, environment.project, environment.key)
        ready = [each.number for each in builds if each.state == "ready"]
        instead = f", or name {environment.key}@{ready[-1]}, which is ready" if ready else ""
        if build.state == "building":
            return f"environment {label} is still being built: wait until it is ready{instead}"
        return f"environment {label} could not be built ({build.reason}): update it to try again{instead}"

    def delete(self, project: str, key: str) -> None:
        """Deletes an environment and its builds.

        Raises:
            NotFound: there is no such environment.
            Conflict: a version of an existing grader names it.
        """

        def delete(pipe: Pipeline) -> None:
            environment = records.read(pipe, project, key)
            used = sorted(text(use) for use in pipe.smembers(redis_keys.environment_uses(project)))
            graders = [use.partition("/")[2] for use in used if use.startswith(f"{key}/")]
            if graders:
                raise Conflict(
                    f"environment {key!r} is named by versions of {', '.join(graders[:10])}"
                    f"{' and others' if len(graders) > 10 else ''}: delete these graders first"
                )
            kept = records.read_builds(pipe, project, key)
            numbers = {
                text(name): int(found) for name, found in pipe.hgetall(redis_keys.build_numbers(project)).items()
            }
            pipe.multi()
            if len(numbers) >= _KEPT_NUMBERS:
                pipe.delete(redis_keys.build_numbers(project))
                pipe.hset(redis_keys.build_numbers(project), _FLOOR, str(max(environment.build, *numbers.values())))
            else:
                pipe.hset(redis_keys.build_numbers(project), key, str(environment.build))
            pipe.hdel(redis_keys.environments(project), key)
            self._forget(pipe, environment, kept)
            queue.forget(pipe, queue.member(project, key, environment.build))
            records.report(pipe, project, key)
            self._audit.write(pipe, project, "environment.delete", key)

        self._change(project, delete, redis_keys.environment_uses(project), redis_keys.build_numbers(project))

    def contents(self) -> set[str]:
        """The contents that must be kept: those of all builds, and those that the graders of open batches run in."""
        kept = set()
        for name in self._redis.scan_iter(redis_keys.builds("*", "*"), count=1000):
            for value in self._redis.hvals(text(name)):
                kept.add(EnvironmentBuild.model_validate_json(value).sha256)
        for value in self._redis.hvals(redis_keys.SOURCES):
            if environment := Version.model_validate_json(value).environment:
                kept.add(environment.sha256)
        return kept - {""}

    def _change(self, project: str, change: Callable[[Pipeline], _T], *watched: str) -> _T:
        return transaction(self._redis, change, redis_keys.environments(project), *watched)
