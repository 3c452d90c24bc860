"""Servers that projects register, each with its API key, encrypted: what models and endpoints have in common."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec
from redis import Redis
from redis.client import Pipeline

from storage.audit import Audit
from storage.errors import Conflict, KeyNeeded, NotFound
from storage.secret_key import SecretKey, SecretKeyError

MAX_CONCURRENCY = 16  # requests at once, of those that do not say

_REVISIONS = 1 << 52


class RegisteredServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server, as it is kept."""

    key: str
    url: str
    timeout_s: float
    created_at: datetime
    updated_at: datetime
    revision: int = 1
    """Of what the server is asked with. No two are the same, also where a key is given away and taken again."""
    sealed_key: str = ""
    max_concurrency: int = MAX_CONCURRENCY
    requests_per_minute: int | None = None
    tested_at: datetime | None = None


Record = TypeVar("Record", bound=RegisteredServer)
Shown = TypeVar("Shown")


class Registry(ABC, Generic[Record, Shown]):
    """The servers of one kind, of all projects. Each change is one transaction."""

    noun: str
    """What audit lines and messages call one."""
    asked_with = frozenset(("url", "api_key", "timeout_s"))
    """What a change of makes a new revision. What was found out in a test is unknown then."""
    record: type[Record]

    def __init__(self, redis: Redis, audit: Audit, secret_key: SecretKey) -> None:
        self._redis = redis
        self._audit = audit
        self._secret_key = secret_key

    def get(self, project: str, key: str) -> Shown:
        """The one of this key. Raises NotFound."""
        return self._shown(project, self._read(self._redis, project, key))

    def all(self, project: str) -> list[Shown]:
        """Those of a project, by key."""
        found = (msgspec.json.decode(value, type=self.record) for value in self._redis.hvals(self._name(project)))
        return [self._shown(project, record) for record in sorted(found, key=lambda record: record.key)]

    def delete(self, project: str, key: str) -> None:
        """Forgets one with its API key. Raises NotFound."""

        def delete(pipe: Pipeline) -> None:
            self._read(pipe, project, key)
            pipe.multi()
            pipe.hdel(self._name(project), key)
            self._audit.write(pipe, project, f"{self.noun}.delete", key)

        self._transaction(project, delete)

    def _create(self, project: str, record: Record, api_key: str, detail: str) -> Shown:
        """Keeps a new one.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has as many as it may.
            SecretKeyError: the API key cannot be encrypted.
        """
        sealed = self._seal(project, record.key, record.url, api_key)
        record = msgspec.structs.replace(record, sealed_key=sealed, revision=_new_revision())

        def create(pipe: Pipeline) -> Shown:
            if pipe.hexists(self._name(project), record.key):
                raise Conflict(
                    f"project {project!r} has the {self.noun} {record.key!r} already: update it, or choose another key"
                )
            self._check_quota(project, pipe.hlen(self._name(project)))
            pipe.multi()
            pipe.hset(self._name(project), record.key, msgspec.json.encode(record))
            self._audit.write(pipe, project, f"{self.noun}.create", record.key, detail[:1000])
            return self._shown(project, record)

        created: Shown = self._transaction(project, create)
        return created

    def _update(self, project: str, key: str, changes: Mapping[str, Any]) -> Shown:
        """Changes members, by their names in the record, and `api_key`. What is there already is no change.

        Raises:
            NotFound: there is none of this key.
            KeyNeeded: the URL changes, and the API key does not: it would go to a server that it was not for.
            SecretKeyError: the API key cannot be encrypted.
        """

        def update(pipe: Pipeline) -> Shown:
            record = self._read(pipe, project, key)
            url = changes.get("url", record.url)
            if url != record.url and record.sealed_key and "api_key" not in changes:
                raise KeyNeeded(
                    f"the API key of {self.noun} {key!r} was given for another URL: give the key again, or an empty one"
                )
            changed_names = {name for name, value in changes.items() if not self._has(project, record, name, value)}
            updates = {name: changes[name] for name in changed_names - {"api_key"}}
            if "api_key" in changes:
                updates["sealed_key"] = self._seal(project, key, url, changes["api_key"])
            if not self.asked_with.isdisjoint(changed_names):
                updates |= {"revision": _new_revision(), "tested_at": None, **self._untested()}
            elif "max_concurrency" in changed_names:  # clients have connections for so many
                updates["revision"] = _new_revision()
            changed = msgspec.structs.replace(record, **updates, updated_at=datetime.now(UTC))
            pipe.multi()
            pipe.hset(self._name(project), key, msgspec.json.encode(changed))
            self._audit.write(pipe, project, f"{self.noun}.update", key, ", ".join(sorted(changes)))
            return self._shown(project, changed)

        updated: Shown = self._transaction(project, update)
        return updated

    def _opened(self, project: str, key: str) -> tuple[Record, str]:
        """A record and its API key.

        Raises:
            NotFound: there is none of this key.
            SecretKeyError: its API key cannot be decrypted.
        """
        record = self._read(self._redis, project, key)
        return record, self._open(project, record)

    def _note_trial(self, project: str, key: str, revision: int, passed: bool, found: Mapping[str, Any]) -> None:
        """Keeps what a test found out, unless what was tested is another now. A failed one tells nothing."""

        def note(pipe: Pipeline) -> None:
            value = pipe.hget(self._name(project), key)
            record = msgspec.json.decode(value, type=self.record) if value is not None else None
            pipe.multi()
            if record is not None and record.revision == revision and passed:
                tested = msgspec.structs.replace(record, **found, tested_at=datetime.now(UTC))
                pipe.hset(self._name(project), key, msgspec.json.encode(tested))
            if record is not None:
                self._audit.write(pipe, project, f"{self.noun}.test", key, "passed" if passed else "failed")

        self._transaction(project, note)

    def _has(self, project: str, record: Record, name: str, value: Any) -> bool:
        """Whether a member is this already."""
        if name != "api_key":
            return bool(getattr(record, name) == value)
        if not record.sealed_key or not value:
            return not record.sealed_key and not value
        try:
            return self._open(project, record) == str(value)
        except SecretKeyError:
            return False  # the former cannot be read any more: the new one takes its place

    def _open(self, project: str, record: Record) -> str:
        if not record.sealed_key:
            return ""
        return self._secret_key.open(record.sealed_key, self._context(project, record.key, record.url))

    def _read(self, redis: Redis, project: str, key: str) -> Record:
        value = redis.hget(self._name(project), key)
        if value is None:
            raise NotFound(
                f"there is no {self.noun} {key!r} in project {project!r}: list the {self.noun}s to see which there are"
            )
        return msgspec.json.decode(value, type=self.record)

    def _seal(self, project: str, key: str, url: str, api_key: str) -> str:
        return self._secret_key.seal(api_key, self._context(project, key, url)) if api_key else ""

    def _transaction(self, project: str, change: Callable[[Pipeline], Any]) -> Any:
        """Runs `change` again when what it has read was changed by another meanwhile."""
        return self._redis.transaction(change, self._name(project), value_from_callable=True)

    @abstractmethod
    def _name(self, project: str) -> str:
        """Where a project's are kept."""

    @abstractmethod
    def _context(self, project: str, key: str, url: str) -> str:
        """What an API key is for: nobody who writes to Redis can have it sent elsewhere."""

    @abstractmethod
    def _check_quota(self, project: str, there: int) -> None:
        """Raises QuotaExceeded where the project may have no more."""

    @abstractmethod
    def _shown(self, project: str, record: Record) -> Shown:
        """A record as the API shows it."""

    def _untested(self) -> dict[str, Any]:
        """The members that a test finds out, as they are before it."""
        return {}


def _new_revision() -> int:
    return secrets.randbelow(_REVISIONS)
