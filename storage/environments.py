"""Environments and their builds. A build is made once by a worker and never changed; its number is never given again.

What is to be built is lent to a worker for a minute at a time, as units of batches are: a worker that died has it no
longer, and another tries again.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Environment, EnvironmentBuild, EnvironmentPackage, EnvironmentUse, Version
from storage import names
from storage.archives import KEPT_S
from storage.audit import Audit
from storage.connection import text
from storage.errors import Conflict, NotFound
from storage.quotas import Quotas

LEASE_S = 60.0
TRIES = 3
_KEPT_NUMBERS = 1000  # of environments that were deleted
_FLOOR = ""  # among the numbers: the highest of those that are no longer kept
_GIVEN_UP = (
    "it was begun {tries} times, and each time the worker that built it ended before: look into the workers' logs, "
    "then update the environment to try again"
)


class Claim(NamedTuple):
    """A build that is this worker's until its lease runs out. A later claim of the same build has a higher `tries`."""

    project: str
    key: str
    number: int
    tries: int
    requirements: Sequence[str]

    @property
    def member(self) -> str:
        """Its name among those that are to be built."""
        return f"{self.project}/{self.key}/{self.number}"


class Made(msgspec.Struct, frozen=True):
    """What a build has come to."""

    packages: list[EnvironmentPackage]
    sha256: str
    python: str
    size_bytes: int
    files: int


class Environments:
    """The environments of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas

    def create(self, project: str, key: str, requirements: Sequence[str]) -> Environment:
        """Keeps a new environment, whose first build is to be made.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has as many builds as it may, or as many that are being made.
        """

        def create(pipe: Pipeline) -> Environment:
            if pipe.hexists(names.environments(project), key):
                raise Conflict(
                    f"there is an environment {key!r} in project {project!r} already: "
                    "update it to make a new build, or choose another key"
                )
            own, floor = pipe.hmget(names.build_numbers(project), [key, _FLOOR])
            number = int(own or floor or 0) + 1
            self._check_room(pipe, project)
            now = datetime.now(UTC)
            environment = Environment(
                project=project, key=key, build=number, state="building", created_at=now, updated_at=now
            )
            pipe.multi()
            return self._begin(pipe, environment, requirements, "environment.create")

        created: Environment = self._change(project, create, names.build_numbers(project))
        return created

    def update(self, project: str, key: str, requirements: Sequence[str]) -> Environment:
        """Begins a new build, unless the newest one is of the same requirements and has not failed.

        Raises:
            NotFound: there is no such environment.
            Conflict: its newest build is being made.
            QuotaExceeded: as for `create`.
        """

        def update(pipe: Pipeline) -> Environment:
            environment = _read(pipe, project, key)
            newest = _build(pipe, environment, environment.build)
            if newest.requirements == list(requirements) and newest.state != "failed":
                pipe.multi()
                return environment.model_copy(update={"builds": [newest]})
            if newest.state == "building":
                raise Conflict(f"environment {key}@{newest.number} is being built: wait until it is ready")
            self._check_room(pipe, project)
            pipe.multi()
            changed = environment.model_copy(
                update={"build": newest.number + 1, "state": "building", "updated_at": datetime.now(UTC)}
            )
            return self._begin(pipe, changed, requirements, "environment.update")

        updated: Environment = self._change(project, update, names.builds(project, key))
        return updated

    def _begin(self, pipe: Pipeline, environment: Environment, requirements: Sequence[str], action: str) -> Environment:
        project, key, number = environment.project, environment.key, environment.build
        build = EnvironmentBuild(
            number=number, state="building", requirements=list(requirements), step="waiting", created_at=_now()
        )
        _write(pipe, environment, build)
        pipe.zadd(names.BUILDS, {f"{project}/{key}/{number}": _time(self._redis)})  # the oldest is built first
        self._audit.write(pipe, project, action, key, f"build {number}: {', '.join(requirements)}"[:1000])
        return environment.model_copy(update={"builds": [build]})

    def _check_room(self, pipe: Pipeline, project: str) -> None:
        keys = [text(key) for key in pipe.hkeys(names.environments(project))]
        there = sum(pipe.hlen(names.builds(project, key)) for key in keys)
        members: Any = pipe.zrange(names.BUILDS, 0, -1)
        building = sum(text(member).startswith(f"{project}/") for member in members)
        deleted = int(pipe.zcount(names.deleted_builds(project), time.time() - KEPT_S, "+inf"))
        self._quotas.check_builds(project, there, building, deleted)

    def get(self, project: str, key: str) -> Environment:
        """One environment with all of its builds. Raises NotFound where there is none."""
        environment = _read(self._redis, project, key)
        found = self._redis.hvals(names.builds(project, key))
        builds = sorted(map(EnvironmentBuild.model_validate_json, found), key=lambda build: build.number)
        return environment.model_copy(update={"builds": builds})

    def all(self, project: str) -> list[Environment]:
        """The environments of a project, by key, each with its newest build."""
        found = map(Environment.model_validate_json, self._redis.hvals(names.environments(project)))
        listed = []
        for environment in sorted(found, key=lambda each: each.key):
            value = self._redis.hget(names.builds(project, environment.key), str(environment.build))
            if value is not None:  # else it was deleted meanwhile
                build = EnvironmentBuild.model_validate_json(value)
                listed.append(environment.model_copy(update={"builds": [build]}))
        return listed

    def usable(self, project: str, key: str, number: int | None = None) -> tuple[EnvironmentUse, EnvironmentBuild]:
        """The build that a grader is to run in: the newest where no number is given.

        Raises:
            NotFound: there is no such environment, or no such build of it.
            Conflict: it is not ready.
        """
        environment = _read(self._redis, project, key)
        build = _build(self._redis, environment, number or environment.build)
        if build.state != "ready":
            why = "is still being built: wait until it is ready" if build.state == "building" else "could not be built"
            raise Conflict(
                f"environment {key}@{build.number} {why}{f' ({build.reason})' if build.reason else ''}, "
                f"or name an earlier build, such as {key}@1"
            )
        return EnvironmentUse(key=key, build=build.number, sha256=build.sha256), build

    def delete(self, project: str, key: str) -> None:
        """Forgets an environment and its builds.

        Raises:
            NotFound: there is no such environment.
            Conflict: a version of a grader that is there names it.
        """

        def delete(pipe: Pipeline) -> None:
            environment = _read(pipe, project, key)
            used = sorted(text(use) for use in pipe.smembers(names.environment_uses(project)))
            graders = [use.partition("/")[2] for use in used if use.startswith(f"{key}/")]
            if graders:
                raise Conflict(
                    f"environment {key!r} is named by versions of {', '.join(graders[:10])}"
                    f"{' and others' if len(graders) > 10 else ''}: delete these graders first"
                )
            contents = self._contents(pipe, project, key)
            builds = [f"{key}/{text(number)}" for number in pipe.hkeys(names.builds(project, key))]
            numbers = {text(name): int(found) for name, found in pipe.hgetall(names.build_numbers(project)).items()}
            pipe.multi()
            if len(numbers) >= _KEPT_NUMBERS:
                pipe.delete(names.build_numbers(project))
                pipe.hset(names.build_numbers(project), _FLOOR, str(max(environment.build, *numbers.values())))
            else:
                pipe.hset(names.build_numbers(project), key, str(environment.build))
            pipe.hdel(names.environments(project), key)
            pipe.delete(names.builds(project, key))
            pipe.zremrangebyscore(names.deleted_builds(project), "-inf", time.time() - KEPT_S)
            pipe.zadd(names.deleted_builds(project), dict.fromkeys(builds, time.time()))
            pipe.expire(names.deleted_builds(project), int(KEPT_S) + 1)
            if contents:  # a batch that is accepted in this moment may need them yet
                pipe.zadd(names.ARCHIVES, dict.fromkeys(contents, time.time()))
            pipe.zrem(names.BUILDS, f"{project}/{key}/{environment.build}")
            pipe.hdel(names.BUILD_TRIES, f"{project}/{key}/{environment.build}")
            self._audit.write(pipe, project, "environment.delete", key)

        self._change(project, delete, names.environment_uses(project), names.build_numbers(project))

    def claim(self) -> Claim | None:
        """A build that nobody is at, which is this worker's for a minute; None where there is none.

        One that was begun too often fails.
        """
        while (claim := self._claim()) is not None:
            if claim.tries <= TRIES:
                return claim
            self.fail(claim, _GIVEN_UP.format(tries=TRIES))
        return None

    def _claim(self) -> Claim | None:
        def take(pipe: Pipeline) -> Claim | None:
            now = _time(pipe)
            found: Any = pipe.zrangebyscore(names.BUILDS, "-inf", now, start=0, num=1)
            if not found:
                pipe.multi()
                return None
            member = text(found[0])
            project, key, number = member.split("/")
            tries = int(pipe.hget(names.BUILD_TRIES, member) or 0) + 1
            value = pipe.hget(names.builds(project, key), number)
            build = EnvironmentBuild.model_validate_json(value) if value else None
            pipe.multi()
            pipe.zadd(names.BUILDS, {member: now + LEASE_S})
            pipe.hset(names.BUILD_TRIES, member, str(tries))
            return Claim(project, key, int(number), tries, build.requirements if build else [])

        result: Claim | None = self._transaction(take, names.BUILDS)
        return result

    def renew(self, claim: Claim, step: str = "") -> bool:
        """Another minute for a build, and what is done of it now; False where it is this worker's no longer."""

        def renew(pipe: Pipeline) -> bool:
            build = _claimed(pipe, claim)
            now = _time(pipe)
            pipe.multi()
            if build is None:
                return False
            pipe.zadd(names.BUILDS, {claim.member: now + LEASE_S})
            if step and step != build.step:
                pipe.hset(names.builds(claim.project, claim.key), str(claim.number), _told(build, step=step))
            return True

        return bool(self._transaction(renew, names.BUILDS, names.BUILD_TRIES))

    def give_back(self, claim: Claim) -> None:
        """Lets another worker begin a build at once, as if this one had not."""

        def give_back(pipe: Pipeline) -> None:
            build = _claimed(pipe, claim)
            pipe.multi()
            if build is not None:
                pipe.zadd(names.BUILDS, {claim.member: 0})
                pipe.hset(names.BUILD_TRIES, claim.member, str(claim.tries - 1))

        self._transaction(give_back, names.BUILDS, names.BUILD_TRIES)

    def finish(self, claim: Claim, made: Made) -> bool:
        """Makes a build ready; False where it is this worker's no longer."""
        return self._end(claim, state="ready", **msgspec.structs.asdict(made))

    def fail(self, claim: Claim, reason: str) -> bool:
        """Notes why a build could not be made; False where it is this worker's no longer."""
        return self._end(claim, state="failed", reason=reason[:4000])

    def _end(self, claim: Claim, **changes: Any) -> bool:
        project, key = claim.project, claim.key

        def end(pipe: Pipeline) -> bool:
            build = _claimed(pipe, claim)
            value = pipe.hget(names.environments(project), key)
            pipe.multi()
            if build is None or value is None:
                return False
            now = _now()
            ended = build.model_copy(update={**changes, "step": "", "ended_at": now})
            environment = Environment.model_validate_json(value)
            update = {"state": ended.state, "updated_at": now} if environment.build == ended.number else {}
            _write(pipe, environment.model_copy(update=update), ended)
            pipe.zrem(names.BUILDS, claim.member)
            pipe.hdel(names.BUILD_TRIES, claim.member)
            return True

        watched = (names.environments(project), names.builds(project, key), names.BUILD_TRIES)
        return bool(self._transaction(end, *watched))

    def _contents(self, redis: Redis, project: str, key: str) -> set[str]:
        builds = map(EnvironmentBuild.model_validate_json, redis.hvals(names.builds(project, key)))
        return {build.sha256 for build in builds} - {""}

    def contents(self) -> set[str]:
        """What must be kept: the contents of all builds, and of all that running batches score with."""
        kept = set()
        for name in self._redis.scan_iter(names.builds("*", "*"), count=1000):
            for value in self._redis.hvals(text(name)):
                kept.add(EnvironmentBuild.model_validate_json(value).sha256)
        for value in self._redis.hvals(names.SOURCES):
            if environment := Version.model_validate_json(value).environment:
                kept.add(environment.sha256)
        return kept - {""}

    def _change(self, project: str, change: Any, *watched: str) -> Any:
        return self._transaction(change, names.environments(project), *watched)

    def _transaction(self, change: Any, *watched: str) -> Any:
        """Runs `change` again when what it has read was changed by another meanwhile."""
        return self._redis.transaction(change, *watched, value_from_callable=True)


def _claimed(pipe: Pipeline, claim: Claim) -> EnvironmentBuild | None:
    """The build, where it is still this claim's and still to be made."""
    if int(pipe.hget(names.BUILD_TRIES, claim.member) or 0) != claim.tries:
        return None
    value = pipe.hget(names.builds(claim.project, claim.key), str(claim.number))
    build = EnvironmentBuild.model_validate_json(value) if value else None
    return build if build is not None and build.state == "building" else None


def _write(pipe: Pipeline, environment: Environment, build: EnvironmentBuild) -> None:
    project, key = environment.project, environment.key
    pipe.hset(names.environments(project), key, environment.model_copy(update={"builds": []}).model_dump_json())
    pipe.hset(names.builds(project, key), str(build.number), build.model_dump_json())


def _told(build: EnvironmentBuild, **changes: object) -> str:
    return build.model_copy(update=changes).model_dump_json()


def _read(redis: Redis, project: str, key: str) -> Environment:
    value = redis.hget(names.environments(project), key)
    if value is None:
        raise NotFound(
            f"there is no environment {key!r} in project {project!r}: list the environments to see which there are"
        )
    return Environment.model_validate_json(value)


def _build(redis: Redis, environment: Environment, number: int) -> EnvironmentBuild:
    value = redis.hget(names.builds(environment.project, environment.key), str(number))
    if value is None:
        raise NotFound(f"environment {environment.key!r} has no build {number}: look which builds it has")
    return EnvironmentBuild.model_validate_json(value)


def _time(redis: Redis) -> float:
    """Redis' own: the clocks of workers differ."""
    seconds, micros = redis.time()
    return float(seconds) + float(micros) / 1e6


def _now() -> datetime:
    return datetime.now(UTC)
