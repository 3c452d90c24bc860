"""The records of environments: a hash for each project, and a hash of builds for each environment."""

from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import Environment, EnvironmentBuild
from storage import redis_keys
from storage.connection import text
from storage.errors import NotFound, no_key


def read(redis: Redis, project: str, key: str) -> Environment:
    """One environment without its builds. Raises NotFound."""
    value = redis.hget(redis_keys.environments(project), key)
    if value is None:
        keys = [*map(text, redis.hkeys(redis_keys.environments(project)))]
        raise no_key("environment", key, project, keys)
    return Environment.model_validate_json(value)


def read_build(redis: Redis, environment: Environment, number: int) -> EnvironmentBuild:
    """One build. Raises NotFound."""
    value = redis.hget(redis_keys.builds(environment.project, environment.key), str(number))
    if value is None:
        raise NotFound(
            f"environment {environment.key!r} has no build {number}, its newest is {environment.build}: "
            "show the environment to see which there are"
        )
    return EnvironmentBuild.model_validate_json(value)


def read_builds(redis: Redis, project: str, key: str) -> list[EnvironmentBuild]:
    """All builds of an environment, oldest first. Empty if the environment does not exist."""
    found = redis.hvals(redis_keys.builds(project, key))
    return sorted(map(EnvironmentBuild.model_validate_json, found), key=lambda build: build.number)


def read_builds_of_all(redis: Redis, project: str) -> list[EnvironmentBuild]:
    """All builds of all environments of a project."""
    keys = [text(key) for key in redis.hkeys(redis_keys.environments(project))]
    return [build for key in keys for build in read_builds(redis, project, key)]


def write(pipe: Pipeline, environment: Environment, build: EnvironmentBuild) -> None:
    """Stores an environment and one of its builds, and notifies the requests that wait for it."""
    project, key = environment.project, environment.key
    pipe.hset(redis_keys.environments(project), key, environment.model_copy(update={"builds": []}).model_dump_json())
    write_build(pipe, project, key, build)


def write_build(pipe: Pipeline, project: str, key: str, build: EnvironmentBuild) -> None:
    """Stores one build, and notifies the requests that wait for it."""
    pipe.hset(redis_keys.builds(project, key), str(build.number), build.model_dump_json())
    report(pipe, project, key)


def report(pipe: Pipeline, project: str, key: str) -> None:
    """Notifies the requests that wait for an environment that it has changed."""
    pipe.publish(redis_keys.ENDINGS, event(project, key))


def event(project: str, key: str) -> str:
    """The name of an environment on the channel of events. It has a slash, which no batch id has."""
    return f"{project}/{key}"
