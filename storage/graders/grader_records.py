"""Reads the records of graders, and refuses changes of them."""

from collections.abc import Mapping
from typing import Any

from redis import Redis

from gradebox.schemas import GraderRecord, Kind, Version
from storage import redis_keys
from storage.connection import text
from storage.errors import MOST_COMPARED, Conflict, KeyTaken, Locked, NotFound, VersionChanged, no_key
from storage.graders import check_threads
from storage.graders.grader_content import Custom, Proved


def read(redis: Redis, project: str, key: str) -> GraderRecord:
    """The record of a grader. Raises NotFound."""
    value = redis.get(redis_keys.grader(project, key))
    if value is None:
        some: Any = redis.srandmember(redis_keys.graders(project), MOST_COMPARED + 1)  # not thousands, for one key
        raise no_key("grader", key, project, [*map(text, some)])
    return GraderRecord.model_validate_json(value)


def check_free(redis: Redis, project: str, key: str) -> None:
    """Raises KeyTaken if a grader has this key."""
    if redis.exists(redis_keys.grader(project, key)):
        raise KeyTaken(
            f"there is a grader {key!r} in project {project!r} already: "
            "for a new version use graders.put in Python, `gradebox graders create --replace` or `gradebox graders "
            "update` in the shell, or PUT over HTTP; or choose another key"
        )


def watched_for(project: str, content: Proved | Custom) -> list[str]:
    """The keys that must not change while the version is written."""
    used = content.environment
    of_environment = [] if used is None else [redis_keys.environments(project), redis_keys.builds(project, used.key)]
    return [redis_keys.version_bytes(project), *of_environment]


def check_environment(redis: Redis, project: str, content: Proved | Custom) -> None:
    """Raises NotFound if the environment was deleted since the source was checked in it."""
    used = content.environment
    if used is not None and not redis.hexists(redis_keys.builds(project, used.key), str(used.build)):
        raise NotFound(f"environment {used.label} was deleted meanwhile: nothing was saved")


def check_update(grader: GraderRecord, kind: Kind, expected: int | None) -> None:
    """Raises an error if this grader may get no version of this kind.

    Raises:
        Locked: it may not be changed.
        VersionChanged: its newest version is not `expected`.
        Conflict: it is of another kind.
    """
    check_unlocked(grader)
    if expected is not None and grader.version != expected:
        raise VersionChanged(
            f"grader {grader.key!r} is at version {grader.version}, and this was to follow version {expected}: nothing "
            "was saved; look at what has changed, and send it again for that version"
        )
    if kind != grader.kind and "custom" in (kind, grader.kind):  # a source, and what it is generated from, may change
        raise Conflict(
            f"grader {grader.key!r} is of kind {grader.kind!r} and stays so: "
            f"make one of kind {kind!r} under another key, or delete it first"
        )


def check_taken(newest: Version, key: str, taken: Mapping[str, object]) -> None:
    """Raises Conflict if a field of the newest version has another value than `taken`."""
    changed = [name.removesuffix("_asked") for name, value in taken.items() if getattr(newest, name) != value]
    if changed:
        raise Conflict(
            f"the {', '.join(changed)} of grader {key!r} was changed by version {newest.number} while this was proved "
            "with what was stored before: nothing was saved; send it again"
        )


def check_stored_threads(key: str, stored: bytes, expected: str | None) -> None:
    """Raises Conflict if the digest of the stored threads, which are packed, is not `expected`."""
    if expected is not None and check_threads.digest(check_threads.unpack(stored)) != expected:
        raise Conflict(
            f"other test threads were stored with grader {key!r} while this was proved: nothing was saved; send it "
            "again"
        )


def check_unlocked(grader: GraderRecord) -> None:
    """Raises Locked if this grader may not be changed."""
    if grader.locked:
        raise Locked(f"grader {grader.key!r} is locked: unlock it to change or delete it")
