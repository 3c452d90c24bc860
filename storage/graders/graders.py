"""Graders and their versions. A version is written once and never changed, and its number is never reused."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import GraderRecord, Kind, Version
from storage import redis_keys
from storage.access.audit import Audit
from storage.access.own_limits import OwnLimits, check_runs, limits_in
from storage.access.quotas import Quotas
from storage.connection import text, transaction
from storage.errors import Conflict, NotFound, NotRunnable
from storage.graders import check_threads
from storage.graders import grader_records as records
from storage.graders.grader_content import Custom, Proved
from storage.idempotency import Once, answered, keep

PAGE_BYTES = 4 * 1024 * 1024  # of versions in one response; one read of `_AT_ONCE` versions may exceed it
_AT_ONCE = 16
_KEPT_NUMBERS = 2000  # of deleted graders
_FLOOR = ""  # field with the highest of the numbers that are no longer stored

_T = TypeVar("_T")


class Graders:
    """The graders of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas

    def create(
        self, project: str, key: str, name: str, description: str, content: Proved | Custom, once: Once | None = None
    ) -> GraderRecord:
        """Stores a new grader with its first version.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has reached its quota of graders, or of bytes of versions.
            KeyReused: `once` was used with another request.
        """

        def create(pipe: Pipeline) -> GraderRecord:
            records.check_free(pipe, project, key)
            self._quotas.check_number(project, "grader", pipe.scard(redis_keys.graders(project)))
            records.check_environment(pipe, project, content)
            version = self._next_version(pipe, project, key, content)
            kept = check_threads.pack(content.threads)
            self._check_size(pipe, project, version, len(kept.data))
            pipe.multi()
            grader = GraderRecord(
                project=project,
                key=key,
                name=name,
                description=description,
                locked=False,
                test_threads=kept.number,
                created_at=version.created_at,
                updated_at=version.created_at,
                **_of_version(version),
            )
            self._write(pipe, grader, version)
            self._write_threads(pipe, grader, kept, len(kept.data))
            self._audit.write(pipe, project, "grader.create", key, f"version {version.number}")
            return grader

        return self._change_once(project, key, create, once, records.watched_for(project, content))

    def update(
        self,
        project: str,
        key: str,
        content: Proved | Custom,
        texts: dict[str, str] | None = None,
        once: Once | None = None,
        expected: int | None = None,
        taken: Mapping[str, object] | None = None,
        stored_threads: str | None = None,
    ) -> GraderRecord:
        """Stores a new version, unless it is identical to the newest one.

        Args:
            texts: a new name or description.
            expected: the version that its author looked at.
            taken: the fields of the newest version that the content was given because it was sent without them.
            stored_threads: the digest of the stored threads that it was proved on, or replaces.

        Raises:
            NotFound: there is no such grader.
            Locked: it may not be changed.
            Conflict: it is of another kind, or other values than `taken` or `stored_threads` were stored meanwhile.
            VersionChanged: its newest version is not `expected`.
            QuotaExceeded: the grader has reached its quota of versions, or its project that of bytes of versions.
            KeyReused: `once` was used with another request.
        """

        def update(pipe: Pipeline) -> GraderRecord:
            grader = records.read(pipe, project, key)
            records.check_update(grader, content.kind, expected)
            stored = pipe.hget(redis_keys.versions(project, key), str(grader.version))
            if stored is None:
                raise NotFound("the grader was deleted meanwhile: nothing was changed")
            newest = Version.model_validate_json(stored)
            changes: dict[str, Any] = {name: new for name, new in (texts or {}).items() if new != getattr(grader, name)}
            kept = check_threads.pack(content.threads)
            before = cast(bytes, pipe.hget(redis_keys.proof_threads(project), key) or b"")
            if kept.number and kept.data != before:
                changes["test_threads"] = kept.number
            more = len(kept.data) - len(before) if "test_threads" in changes else 0
            is_same = content.is_version(newest)
            if "test_threads" in changes or not (kept.number or is_same):
                records.check_stored_threads(key, before, stored_threads)
            if is_same:
                self._check_size(pipe, project, None, more)
                pipe.multi()
                self._write_threads(pipe, grader, kept, more)
                same = self._describe(pipe, grader, changes) if changes else grader
                return same.model_copy(update={"warnings": content.warnings})
            records.check_taken(newest, key, taken or {})
            self._quotas.check_versions(key, pipe.hlen(redis_keys.versions(project, key)))
            records.check_environment(pipe, project, content)
            version = self._next_version(pipe, project, key, content)
            self._check_size(pipe, project, version, more)
            pipe.multi()
            self._write_threads(pipe, grader, kept, more)
            changed = grader.model_copy(update={**_of_version(version), **changes, "updated_at": version.created_at})
            self._write(pipe, changed, version)
            self._audit.write(pipe, project, "grader.update", key, f"version {version.number}")
            return changed

        return self._change_once(project, key, update, once, records.watched_for(project, content))

    def describe(self, project: str, key: str, changes: dict[str, Any]) -> GraderRecord:
        """Changes `name`, `description` or `locked`.

        Raises:
            NotFound: there is no such grader.
            Locked: it may not be changed, and this does not unlock it.
        """

        def describe(pipe: Pipeline) -> GraderRecord:
            grader = records.read(pipe, project, key)
            if set(changes) != {"locked"} and changes.get("locked") is not False:
                records.check_unlocked(grader)
            pipe.multi()
            return self._describe(pipe, grader, changes)

        return self._change(project, key, describe)

    def delete(self, project: str, key: str) -> None:
        """Deletes a grader and its versions. Accepted batches keep the versions that they score with.

        Raises:
            NotFound: there is no such grader.
            Locked: it may not be changed.
        """

        def delete(pipe: Pipeline) -> None:
            records.check_unlocked(records.read(pipe, project, key))
            forgotten = self._forgotten_number(pipe, project, key)
            uses = [use for use in pipe.smembers(redis_keys.environment_uses(project)) if text(use).endswith(f"/{key}")]
            pipe.multi()
            if uses:
                pipe.srem(redis_keys.environment_uses(project), *uses)
            if forgotten is not None:
                pipe.hdel(redis_keys.numbers(project), key)
                pipe.hset(redis_keys.numbers(project), _FLOOR, str(forgotten))
            pipe.delete(
                redis_keys.grader(project, key), redis_keys.versions(project, key), redis_keys.rewards(project, key)
            )
            pipe.srem(redis_keys.graders(project), key)
            pipe.hdel(redis_keys.version_bytes(project), key)
            pipe.hdel(redis_keys.proof_threads(project), key)
            self._audit.write(pipe, project, "grader.delete", key)

        self._change(project, key, delete, redis_keys.environment_uses(project))

    def check_free(self, project: str, key: str) -> None:
        """Raises Conflict if the key is taken now."""
        records.check_free(self._redis, project, key)

    def check_update(self, project: str, key: str, kind: Kind, expected: int | None = None) -> None:
        """Raises the errors that `update` would raise now for these arguments."""
        records.check_update(self.get(project, key), kind, expected)

    def get(self, project: str, key: str) -> GraderRecord:
        """One grader. Raises NotFound."""
        return records.read(self._redis, project, key)

    def all(self, project: str) -> list[GraderRecord]:
        """All graders of a project, sorted by key."""
        keys = sorted(text(key) for key in self._redis.smembers(redis_keys.graders(project)))
        found = self._redis.mget([redis_keys.grader(project, key) for key in keys]) if keys else []
        return [GraderRecord.model_validate_json(value) for value in found if value is not None]

    def page(self, project: str, after: str = "") -> tuple[list[GraderRecord], bool]:
        """The graders after a key, sorted by key: all, or some megabytes. Also returns whether there are more."""
        keys = sorted(found for found in map(text, self._redis.smembers(redis_keys.graders(project))) if found > after)
        found, has_more = _page(keys, lambda some: self._redis.mget([redis_keys.grader(project, key) for key in some]))
        return [GraderRecord.model_validate_json(value) for value in found], has_more

    def version(self, project: str, key: str, number: int | None = None) -> Version:
        """One version: number `number`, or the newest.

        Raises:
            NotFound: there is no such grader, or no such version of it.
        """
        return self.version_and_limits(project, key, number)[0]

    def runnable(self, project: str, key: str, number: int | None = None, *, within_limits: bool = True) -> Version:
        """One version that is to score.

        Args:
            within_limits: whether the version, and all graders that it asks, must be within the limits of the project.
                False for a part of what was accepted, and for a version whose source is to have other settings.

        Raises:
            NotFound: as for `version`.
            NotRunnable: the grader is of kind `custom`, or exceeds a limit of the project, or one that it asks does.
        """
        version, limits = self.version_and_limits(project, key, number)
        if version.kind == "custom":
            raise NotRunnable(
                f"grader {key!r} is of kind 'custom', and cannot be run: its scores come from outside, as from people: "
                "record them (`batch.record`)"
            )
        if within_limits and limits:
            check_runs(project, key, version, limits)
            for asked_key, asked in self.asked_by(project, [version]):
                check_runs(project, asked_key, asked, limits)
        return version

    def asked_by(self, project: str, versions: Iterable[Version]) -> Iterator[tuple[str, Version]]:
        """The graders that these versions ask, also through graders that they ask: key and version. Without those that
        do not exist or are not run, since such an ask fails.
        """
        seen: set[str] = set()
        todo = [label for version in versions for label in _asked_graders(version)]
        while todo:
            if (label := todo.pop()) in seen:
                continue
            seen.add(label)
            key, _, number = label.partition("@")
            with suppress(NotFound, NotRunnable):
                version = self.runnable(project, key, int(number) if number else None, within_limits=False)
                todo += _asked_graders(version)
                yield key, version

    def version_and_limits(self, project: str, key: str, number: int | None) -> tuple[Version, OwnLimits]:
        """A version as by `version`, and the project's own limits."""
        number = number or self.get(project, key).version
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(redis_keys.versions(project, key), str(number))
            pipe.hget(redis_keys.PROJECTS, project)
            value, record = pipe.execute()
        if value is None:
            self.get(project, key)
            raise NotFound(f"grader {key!r} has no version {number}: list its versions to see which there are")
        return Version.model_validate_json(value), limits_in(record)

    def versions(self, project: str, key: str, after: int = 0) -> tuple[list[Version], bool]:
        """The versions after number `after`, oldest first: all, or some megabytes. Also returns whether there are more.
        Raises NotFound if there is no such grader.
        """
        self.get(project, key)
        name = redis_keys.versions(project, key)
        numbers = sorted(found for found in map(int, self._redis.hkeys(name)) if found > after)
        found, has_more = _page([str(number) for number in numbers], lambda some: self._redis.hmget(name, some))
        return [Version.model_validate_json(value) for value in found], has_more

    def threads(self, project: str, key: str) -> list[bytes]:
        """The threads that the grader was checked on, as JSON lines. Empty if none were sent. Raises NotFound."""
        self.get(project, key)
        kept = self._redis.hget(redis_keys.proof_threads(project), key)
        return check_threads.unpack(cast(bytes, kept or b""))

    def answered(self, once: Once | None) -> GraderRecord | None:
        """The earlier answer to the same request, if there is one. Raises KeyReused."""
        return _answered(self._redis, once)

    def _change_once(
        self,
        project: str,
        key: str,
        change: Callable[[Pipeline], GraderRecord],
        once: Once | None,
        watched: Sequence[str] = (),
    ) -> GraderRecord:
        """Runs `change`, or returns the earlier answer if the request was already done."""

        def unless_done(pipe: Pipeline) -> GraderRecord:
            if done := _answered(pipe, once):
                pipe.multi()
                return done
            try:
                grader = change(pipe)
            except Conflict:  # perhaps with the same request: it may have been done since the first check
                if done := _answered(pipe, once):
                    pipe.multi()
                    return done
                raise
            keep(pipe, once, grader.model_dump_json().encode())
            return grader

        return self._change(project, key, unless_done, *watched, *([once.name] if once else []))

    def _change(self, project: str, key: str, change: Callable[[Pipeline], _T], *watched: str) -> _T:
        return transaction(self._redis, change, redis_keys.grader(project, key), redis_keys.numbers(project), *watched)

    def _describe(self, pipe: Pipeline, grader: GraderRecord, changes: dict[str, Any]) -> GraderRecord:
        changed = grader.model_copy(update={**changes, "updated_at": datetime.now(UTC)})
        pipe.set(redis_keys.grader(grader.project, grader.key), changed.model_dump_json())
        detail = ", ".join(f"locked: {value}" if name == "locked" else name for name, value in changes.items())
        self._audit.write(pipe, grader.project, "grader.describe", grader.key, detail)
        return changed

    def _next_version(self, pipe: Pipeline, project: str, key: str, content: Proved | Custom) -> Version:
        own, floor = pipe.hmget(redis_keys.numbers(project), [key, _FLOOR])
        return content.version(int(own or floor or 0) + 1)

    def _forgotten_number(self, pipe: Pipeline, project: str, key: str) -> int | None:
        """The number from which new graders count on, so that no number is reused, if the number of this deleted grader
        is not stored. None if it is stored.
        """
        if pipe.hlen(redis_keys.numbers(project)) <= self._quotas.graders + _KEPT_NUMBERS:
            return None
        own, floor = pipe.hmget(redis_keys.numbers(project), [key, _FLOOR])
        return max(int(own or 0), int(floor or 0))

    def _check_size(self, pipe: Pipeline, project: str, version: Version | None, threads: int) -> None:
        more = threads + (len(_packed(version)) if version else 0)
        if more > 0:
            there = sum(int(size) for size in pipe.hvals(redis_keys.version_bytes(project)))
            self._quotas.check_version_bytes(project, there, more)

    def _write_threads(self, pipe: Pipeline, grader: GraderRecord, kept: check_threads.Packed, more: int) -> None:
        """Replaces the stored threads. The new ones are `more` bytes longer."""
        if kept.number:
            pipe.hset(redis_keys.proof_threads(grader.project), grader.key, kept.data)
            pipe.hincrby(redis_keys.version_bytes(grader.project), grader.key, more)

    def _write(self, pipe: Pipeline, grader: GraderRecord, version: Version) -> None:
        project, key = grader.project, grader.key
        pipe.hset(redis_keys.numbers(project), key, str(version.number))
        kept = _packed(version)
        pipe.hset(redis_keys.versions(project, key), str(version.number), kept)
        pipe.hincrby(redis_keys.version_bytes(project), key, len(kept))
        pipe.set(redis_keys.grader(project, key), grader.model_dump_json())
        pipe.sadd(redis_keys.graders(project), key)
        if version.environment is not None:
            pipe.sadd(redis_keys.environment_uses(project), f"{version.environment.key}/{key}")


def _asked_graders(version: Version) -> list[str]:
    """The graders that a version asks: `key`, or `key@number` if it is pinned to a version."""
    asks = (ask for ask in version.asks if ask.startswith("grader:"))
    return [version.pinned.get(ask, ask.removeprefix("grader:")) for ask in asks]


def _packed(version: Version) -> bytes:
    return version.model_dump_json().encode()


def _page(names: Sequence[str], read: Callable[[list[str]], Any]) -> tuple[list[bytes], bool]:
    """The values of these names, up to `PAGE_BYTES`, and whether there are more."""
    found: list[bytes] = []
    for first in range(0, len(names), _AT_ONCE):
        some = list(names[first : first + _AT_ONCE])
        found += [value for value in read(some) if value is not None]  # else it was deleted meanwhile
        if sum(map(len, found)) >= PAGE_BYTES and some[-1] != names[-1]:
            return found, True
    return found, False


def _answered(redis: Redis, once: Once | None) -> GraderRecord | None:
    answer = answered(redis, once)
    return None if answer is None else GraderRecord.model_validate_json(answer)


def _of_version(version: Version) -> dict[str, Any]:
    shown = ("kind", "sha256", "isolation", "timeout_s", "memory_mb", "environment", "asks", "groups", "warnings")
    return {"version": version.number, **{name: getattr(version, name) for name in shown}}
