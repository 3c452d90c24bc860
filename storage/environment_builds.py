"""The builds that are to be made. Each is made once by a worker.

A build is lent to a worker for a minute at a time, as units of batches are: a worker that died has it no longer, and
another tries again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Environment, EnvironmentBuild, EnvironmentPackage
from storage import environment_records as records
from storage import names
from storage.connection import text
from storage.errors import QuotaExceeded
from storage.quotas import Quotas

LEASE_S = 60.0
TRIES = 3
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
    data: str = ""

    @property
    def member(self) -> str:
        """Its name among those that are to be built."""
        return member(self.project, self.key, self.number)


class Made(msgspec.Struct, frozen=True):
    """What a build has come to."""

    packages: list[EnvironmentPackage]
    sha256: str
    python: str
    size_bytes: int
    files: int


def member(project: str, key: str, number: int) -> str:
    """The name of a build among those that are to be made."""
    return f"{project}/{key}/{number}"


class EnvironmentBuilds:
    """The builds of all projects that are to be made. Each change is one transaction."""

    def __init__(self, redis: Redis, quotas: Quotas) -> None:
        self._redis = redis
        self._quotas = quotas

    def claim(self) -> Claim | None:
        """A build that nobody is at, which is this worker's for a minute; None where there is none.

        One that was begun too often fails. A project has one worker at a time: its builds may take long, and others
        would wait for all of them.
        """
        while (claim := self._claim()) is not None:
            if claim.tries <= TRIES:
                return claim
            self.fail(claim, _GIVEN_UP.format(tries=TRIES))
        return None

    def _claim(self) -> Claim | None:
        def take(pipe: Pipeline) -> Claim | None:
            now = records.seconds(pipe)
            queued: Any = pipe.zrange(names.BUILDS, 0, -1, withscores=True)  # a few of each project
            begun = {text(one).split("/")[0] for one, until in queued if until > now}
            due = [text(one) for one, until in queued if until <= now]
            member = next((one for one in due if one.split("/")[0] not in begun), None)
            if member is None:
                pipe.multi()
                return None
            project, key, number = member.split("/")
            tries = int(pipe.hget(names.BUILD_TRIES, member) or 0) + 1
            value = pipe.hget(names.builds(project, key), number)
            build = EnvironmentBuild.model_validate_json(value) if value else None
            pipe.multi()
            pipe.zadd(names.BUILDS, {member: now + LEASE_S})
            pipe.hset(names.BUILD_TRIES, member, str(tries))
            wanted = (build.requirements, build.data) if build else ([], "")
            return Claim(project, key, int(number), tries, *wanted)

        result: Claim | None = self._transaction(take, names.BUILDS)
        return result

    def renew(self, claim: Claim, step: str = "") -> bool:
        """Another minute for a build, and what is done of it now; False where it is this worker's no longer."""

        def renew(pipe: Pipeline) -> bool:
            build = _claimed(pipe, claim)
            now = records.seconds(pipe)
            pipe.multi()
            if build is None:
                return False
            pipe.zadd(names.BUILDS, {claim.member: now + LEASE_S})
            if step and step != build.step:
                records.write_build(pipe, claim.project, claim.key, build.model_copy(update={"step": step}))
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
        """Makes a build ready, or lets it fail where the project has no room for it; False where it is this worker's no
        longer.
        """
        stored = int(self._redis.hget(names.STORED, claim.project) or 0)
        try:
            self._quotas.check_bytes(claim.project, stored, made.size_bytes)
        except QuotaExceeded as exceeded:
            return self.fail(claim, str(exceeded))
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
            now = records.now()
            ended = build.model_copy(update={**changes, "step": "", "ended_at": now})
            environment = Environment.model_validate_json(value)
            update = {"state": ended.state, "updated_at": now} if environment.build == ended.number else {}
            records.write(pipe, environment.model_copy(update=update), ended)
            pipe.hincrby(names.STORED, project, ended.size_bytes)
            forget(pipe, claim.member)
            return True

        watched = (names.environments(project), names.builds(project, key), names.BUILD_TRIES)
        return bool(self._transaction(end, *watched))

    def _transaction(self, change: Any, *watched: str) -> Any:
        """Runs `change` again when what it has read was changed by another meanwhile."""
        return self._redis.transaction(change, *watched, value_from_callable=True)


def begin(pipe: Pipeline, member: str, at: float) -> None:
    """Has a build made from then on: the oldest is made first."""
    pipe.zadd(names.BUILDS, {member: at})


def forget(pipe: Pipeline, member: str) -> None:
    """Has a build made no more."""
    pipe.zrem(names.BUILDS, member)
    pipe.hdel(names.BUILD_TRIES, member)


def _claimed(pipe: Pipeline, claim: Claim) -> EnvironmentBuild | None:
    """The build, where it is still this claim's and still to be made."""
    if int(pipe.hget(names.BUILD_TRIES, claim.member) or 0) != claim.tries:
        return None
    value = pipe.hget(names.builds(claim.project, claim.key), str(claim.number))
    build = EnvironmentBuild.model_validate_json(value) if value else None
    return build if build is not None and build.state == "building" else None
