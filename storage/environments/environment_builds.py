"""The queue of builds to be made. One worker makes each build.

A worker leases a build for some seconds at a time, like the units of batches. If the worker dies, its lease runs out
and another worker tries again.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Environment, EnvironmentBuild, LockedPackage
from storage import redis_keys
from storage.access.quotas import Quotas
from storage.connection import seconds, text, transaction
from storage.environments import environment_records as records
from storage.errors import QuotaExceeded

LEASE_S = 20.0
TRIES = 3
_GIVEN_UP = (
    "it was started {tries} times, but each time the worker ended before it was finished: see the workers' logs, "
    "then update the environment to try again"
)


class Claim(NamedTuple):
    """A build leased to this worker until the lease runs out. A later claim of the same build has a higher `tries`."""

    project: str
    key: str
    number: int
    tries: int
    packages: Sequence[str]
    data: str = ""

    @property
    def member(self) -> str:
        """The name of the build in the queue."""
        return member(self.project, self.key, self.number)


class Made(msgspec.Struct, frozen=True):
    """The result of a build."""

    lock: list[LockedPackage]
    sha256: str
    python: str
    size_bytes: int
    files: int
    log: str = ""


def member(project: str, key: str, number: int) -> str:
    """The name of a build in the queue."""
    return f"{project}/{key}/{number}"


class EnvironmentBuilds:
    """The queue of the builds of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, quotas: Quotas) -> None:
        self._redis = redis
        self._quotas = quotas

    def claim(self) -> Claim | None:
        """Leases a build that no worker has, for `LEASE_S`. None if there is none.

        A build that was begun too often fails. Each project has one worker at a time: its builds may take long, and
        other projects would wait for all of them.
        """
        while (claim := self._claim()) is not None:
            if claim.tries <= TRIES:
                return claim
            self.fail(claim, _GIVEN_UP.format(tries=TRIES))
        return None

    def _claim(self) -> Claim | None:
        def take(pipe: Pipeline) -> Claim | None:
            now = seconds(pipe)
            queued: Any = pipe.zrange(redis_keys.BUILDS, 0, -1, withscores=True)  # a few for each project
            begun = {text(one).split("/")[0] for one, until in queued if until > now}
            due = [text(one) for one, until in queued if until <= now]
            member = next((one for one in due if one.split("/")[0] not in begun), None)
            # After Redis' clock was set back, no build waits longer than a lease lasts.
            late = {one: now + LEASE_S for one, until in queued if until > now + LEASE_S}
            if member is None:
                pipe.multi()
                if late:
                    pipe.zadd(redis_keys.BUILDS, late)
                return None
            project, key, number = member.split("/")
            tries = int(pipe.hget(redis_keys.BUILD_TRIES, member) or 0) + 1
            value = pipe.hget(redis_keys.builds(project, key), number)
            build = EnvironmentBuild.model_validate_json(value) if value else None
            pipe.multi()
            pipe.zadd(redis_keys.BUILDS, {**late, member: now + LEASE_S})
            pipe.hset(redis_keys.BUILD_TRIES, member, str(tries))
            wanted = (build.packages, build.data) if build else ([], "")
            return Claim(project, key, int(number), tries, *wanted)

        return transaction(self._redis, take, redis_keys.BUILDS)

    def renew(self, claim: Claim, step: str = "") -> bool:
        """Renews the lease and records the current step. False if this worker no longer has the lease."""

        def renew(pipe: Pipeline) -> bool:
            build = _claimed(pipe, claim)
            now = seconds(pipe)
            pipe.multi()
            if build is None:
                return False
            pipe.zadd(redis_keys.BUILDS, {claim.member: now + LEASE_S})
            if step and step != build.step:
                records.write_build(pipe, claim.project, claim.key, build.model_copy(update={"step": step}))
            return True

        return transaction(self._redis, renew, redis_keys.BUILDS, redis_keys.BUILD_TRIES)

    def give_back(self, claim: Claim) -> None:
        """Returns a build to the queue for any worker to begin at once, without counting this try."""

        def give_back(pipe: Pipeline) -> None:
            build = _claimed(pipe, claim)
            pipe.multi()
            if build is not None:
                pipe.zadd(redis_keys.BUILDS, {claim.member: 0})
                pipe.hset(redis_keys.BUILD_TRIES, claim.member, str(claim.tries - 1))

        transaction(self._redis, give_back, redis_keys.BUILDS, redis_keys.BUILD_TRIES)

    def finish(self, claim: Claim, made: Made) -> bool:
        """Marks a build as ready, or as failed if the project has no room for it. False if this worker no longer has
        the lease.
        """
        stored = int(self._redis.hget(redis_keys.STORED, claim.project) or 0)
        try:
            self._quotas.check_bytes(claim.project, stored, made.size_bytes)
        except QuotaExceeded as exceeded:
            return self.fail(claim, str(exceeded))
        return self._end(claim, state="ready", **msgspec.structs.asdict(made))

    def fail(self, claim: Claim, reason: str) -> bool:
        """Marks a build as failed for this reason. False if this worker no longer has the lease."""
        return self._end(claim, state="failed", reason=reason[:4000])

    def _end(self, claim: Claim, **changes: Any) -> bool:
        project, key = claim.project, claim.key

        def end(pipe: Pipeline) -> bool:
            build = _claimed(pipe, claim)
            value = pipe.hget(redis_keys.environments(project), key)
            pipe.multi()
            if build is None or value is None:
                return False
            now = datetime.now(UTC)
            ended = build.model_copy(update={**changes, "step": "", "ended_at": now})
            environment = Environment.model_validate_json(value)
            update = {"state": ended.state, "updated_at": now} if environment.build == ended.number else {}
            records.write(pipe, environment.model_copy(update=update), ended)
            pipe.hincrby(redis_keys.STORED, project, ended.size_bytes)
            forget(pipe, claim.member)
            return True

        watched = (redis_keys.environments(project), redis_keys.builds(project, key), redis_keys.BUILD_TRIES)
        return transaction(self._redis, end, *watched)


def forget(pipe: Pipeline, member: str) -> None:
    """Removes a build from the queue."""
    pipe.zrem(redis_keys.BUILDS, member)
    pipe.hdel(redis_keys.BUILD_TRIES, member)


def _claimed(pipe: Pipeline, claim: Claim) -> EnvironmentBuild | None:
    """The build, if this claim still holds it and it is still to be made. After Redis has come back with older data,
    another build may have its number.
    """
    if int(pipe.hget(redis_keys.BUILD_TRIES, claim.member) or 0) != claim.tries:
        return None
    value = pipe.hget(redis_keys.builds(claim.project, claim.key), str(claim.number))
    build = EnvironmentBuild.model_validate_json(value) if value else None
    if build is None or (build.state, build.packages, build.data) != ("building", claim.packages, claim.data):
        return None
    return build
