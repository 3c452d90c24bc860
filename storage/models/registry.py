"""Servers that projects register, with encrypted API keys and headers: the common base of models and endpoints."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec.structs import asdict
from pydantic import BaseModel
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import EndpointTrial, ModelTrial
from storage.access.audit import Audit
from storage.access.quotas import Quotas
from storage.connection import text, transaction
from storage.errors import KeyNeeded, KeyTaken, Refused, no_key
from storage.models.secret_key import SecretKey, SecretKeyError

MAX_CONCURRENCY = 16  # concurrent requests, if the project sets no limit

_REVISIONS = 1 << 52
_SEALED = {"api_key": "sealed_key", "headers": "sealed_headers"}  # members, and where a record has them encrypted


class RegisteredServer(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of a server."""

    key: str
    url: str
    timeout_s: float
    created_at: datetime
    updated_at: datetime
    revision: int = 1
    """Identifies the settings that requests use. Random, so that a deleted and recreated key gets another revision."""
    account: int = 1
    """Identifies the server and the account there that the limits hold for. Random, like `revision`."""
    sealed_key: str = ""
    sealed_headers: dict[str, str] = msgspec.field(default_factory=dict)
    """By name. Models have none."""
    max_concurrency: int = MAX_CONCURRENCY
    requests_per_minute: int | None = None
    tested_at: datetime | None = None


Record = TypeVar("Record", bound=RegisteredServer)
Shown = TypeVar("Shown", bound=BaseModel)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Access(Generic[Record]):
    """What it takes to ask a server: its record, and its API key and headers, which the repr omits."""

    server: Record
    api_key: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers, with that of the API key."""
        return {**self.headers, **({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the server must not repeat: the API key, the values of headers, and what follows a scheme in these, as
        in `Bearer …`. The longest come first, because they contain others.
        """
        found = {self.api_key, *self.headers.values(), *(value.partition(" ")[2] for value in self.headers.values())}
        return tuple(sorted(found - {""}, key=len, reverse=True))


class Registry(Generic[Record, Shown]):
    """The servers of one kind in all projects. Each change is one transaction."""

    noun: Literal["model", "endpoint"]
    """The noun for a server in audit lines and messages."""
    asked_with = frozenset(("url", "api_key", "headers", "timeout_s"))
    """Members that requests use. A change of one makes a new revision and discards the results of the last test."""
    limited_by = frozenset(("url", "api_key", "headers"))
    """Members that the server's own limits depend on. A change of one makes a new `account`."""
    tested: tuple[str, ...] = ()
    """Members that a test determines. They are None before a test."""
    record: type[Record]
    schema: type[Shown]
    """What the API shows of a record."""
    name_of: Callable[[str], str]
    """Returns the Redis key of a project's servers."""
    context = ""
    """The beginning of the encryption context of an API key or header, which distinguishes the kinds of servers."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas, secret_key: SecretKey) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas
        self._secret_key = secret_key

    def get(self, project: str, key: str) -> Shown:
        """The server with this key. Raises NotFound."""
        return self._shown(project, self._read(self._redis, project, key))

    def all(self, project: str) -> list[Shown]:
        """The servers of a project, sorted by key."""
        found = (msgspec.json.decode(value, type=self.record) for value in self._redis.hvals(self.name_of(project)))
        return [self._shown(project, record) for record in sorted(found, key=lambda record: record.key)]

    def access(self, project: str, key: str) -> Access[Record]:
        """What it takes to ask a server.

        Raises:
            NotFound: there is no server with this key.
            SecretKeyError: its API key or a header cannot be decrypted.
        """
        return self._open(project, self._read(self._redis, project, key))

    def delete(self, project: str, key: str) -> None:
        """Deletes a server with its API key and headers. Raises NotFound."""

        def delete(pipe: Pipeline) -> None:
            self._read(pipe, project, key)
            pipe.multi()
            pipe.hdel(self.name_of(project), key)
            self._audit.write(pipe, project, f"{self.noun}.delete", key)

        self._transaction(project, delete)

    def _create(
        self, project: str, record: Record, api_key: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> Shown:
        """Stores a new server.

        Raises:
            KeyTaken: another server has the key.
            QuotaExceeded: the project has the maximum number of servers.
            Refused: there is an API key, and a header Authorization.
            SecretKeyError: the API key or a header cannot be encrypted.
        """
        sealed = self._seal(project, record.key, record.url, {"api_key": api_key, "headers": headers or {}})
        record = msgspec.structs.replace(record, **sealed, revision=_new_revision(), account=_new_revision())
        _check_authorization(record)

        def create(pipe: Pipeline) -> Shown:
            if pipe.hexists(self.name_of(project), record.key):
                raise KeyTaken(
                    f"project {project!r} has the {self.noun} {record.key!r} already: update it, or choose another key"
                )
            self._quotas.check_number(project, self.noun, pipe.hlen(self.name_of(project)))
            pipe.multi()
            pipe.hset(self.name_of(project), record.key, msgspec.json.encode(record))
            self._audit.write(pipe, project, f"{self.noun}.create", record.key, detail[:1000])
            return self._shown(project, record)

        return self._transaction(project, create)

    def _update(self, project: str, key: str, changes: Mapping[str, Any]) -> Shown:
        """Changes members, given by their names in the record or as `api_key` and `headers`. An equal value is not a
        change.

        Raises:
            NotFound: there is no server with this key.
            KeyNeeded: the URL changes, and the API key or headers are not given again: the old ones would be sent to
                another server.
            Refused: there would be an API key, and a header Authorization.
            SecretKeyError: the API key or a header cannot be encrypted.
        """

        def update(pipe: Pipeline) -> Shown:
            record = self._read(pipe, project, key)
            url = changes.get("url", record.url)
            if url != record.url:
                self._check_given_again(record, changes)
            changed_names = {name for name, value in changes.items() if not self._has(project, record, name, value)}
            updates = {name: changes[name] for name in changed_names - _SEALED.keys()}
            updates |= self._seal(project, key, url, changes)
            if not self.asked_with.isdisjoint(changed_names):
                updates |= {"revision": _new_revision(), "tested_at": None, **dict.fromkeys(self.tested)}
            elif "max_concurrency" in changed_names:  # clients size their connection pools by it
                updates["revision"] = _new_revision()
            if not self.limited_by.isdisjoint(changed_names):
                updates["account"] = _new_revision()
            changed = msgspec.structs.replace(record, **updates, updated_at=datetime.now(UTC))
            _check_authorization(changed)
            pipe.multi()
            pipe.hset(self.name_of(project), key, msgspec.json.encode(changed))
            self._audit.write(pipe, project, f"{self.noun}.update", key, ", ".join(sorted(changes)))
            return self._shown(project, changed)

        return self._transaction(project, update)

    def note_trial(self, project: str, key: str, revision: int, trial: ModelTrial | EndpointTrial) -> None:
        """Stores the results of a passed test, if the tested revision is current. Audits passed and failed tests."""
        found = {name: getattr(trial, name) for name in self.tested}

        def note(pipe: Pipeline) -> None:
            value = pipe.hget(self.name_of(project), key)
            record = msgspec.json.decode(value, type=self.record) if value is not None else None
            pipe.multi()
            if record is not None and record.revision == revision and trial.passed:
                tested = msgspec.structs.replace(record, **found, tested_at=datetime.now(UTC))
                pipe.hset(self.name_of(project), key, msgspec.json.encode(tested))
            if record is not None:
                self._audit.write(pipe, project, f"{self.noun}.test", key, "passed" if trial.passed else "failed")

        self._transaction(project, note)

    def _has(self, project: str, record: Record, name: str, value: Any) -> bool:
        """Whether a member already has this value."""
        if name not in _SEALED:
            return bool(getattr(record, name) == value)
        sealed = getattr(record, _SEALED[name])
        if not sealed or not value:
            return not sealed and not value
        try:
            return bool(getattr(self._open(project, record), name) == value)
        except SecretKeyError:
            return False  # the old one is no longer readable: replace it

    def _check_given_again(self, record: Record, changes: Mapping[str, Any]) -> None:
        if record.sealed_key and "api_key" not in changes:
            raise KeyNeeded(
                f"the API key of {self.noun} {record.key!r} was given for another URL: give the key again, or an empty "
                "one"
            )
        if record.sealed_headers and "headers" not in changes:
            raise KeyNeeded(
                f"the headers of {self.noun} {record.key!r} were given for another URL: give them again, or {{}} for "
                "none"
            )

    def _open(self, project: str, record: Record) -> Access[Record]:
        context = self._context(project, record.key, record.url)
        api_key = self._secret_key.open(record.sealed_key, context) if record.sealed_key else ""
        headers = {
            name: self._secret_key.open(sealed, _header_context(name, context))
            for name, sealed in record.sealed_headers.items()
        }
        return Access(record, api_key, headers)

    def _read(self, redis: Redis, project: str, key: str) -> Record:
        value = redis.hget(self.name_of(project), key)
        if value is None:
            raise no_key(self.noun, key, project, [*map(text, redis.hkeys(self.name_of(project)))])
        return msgspec.json.decode(value, type=self.record)

    def _seal(self, project: str, key: str, url: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The members of a record for the given API key and headers, if any are given."""
        context, found = self._context(project, key, url), dict[str, Any]()
        if "api_key" in given:
            found["sealed_key"] = self._secret_key.seal(given["api_key"], context) if given["api_key"] else ""
        if "headers" in given:
            found["sealed_headers"] = {
                name: self._secret_key.seal(value, _header_context(name, context))
                for name, value in given["headers"].items()
            }
        return found

    def _transaction(self, project: str, change: Callable[[Pipeline], _T]) -> _T:
        return transaction(self._redis, change, self.name_of(project))

    def _context(self, project: str, key: str, url: str) -> str:
        """The encryption context of an API key, and the beginning of that of a header. Binds them to their URL, so that
        writing to Redis cannot redirect them.
        """
        return f"{self.context}{project} {key} {url}"

    def _shown(self, project: str, record: Record) -> Shown:
        """The members of a record that the schema names; of its API key, only whether there is one, and of its headers
        only the names.
        """
        secret = {"has_api_key": bool(record.sealed_key), "header_names": sorted(record.sealed_headers)}
        members = {**asdict(record), "base_url": record.url, "project": project, **secret}
        return self.schema(**{name: members[name] for name in self.schema.model_fields if name in members})


def _header_context(name: str, context: str) -> str:
    return f"{context} header {name}"


def _check_authorization(record: RegisteredServer) -> None:
    if record.sealed_key and any(name.lower() == "authorization" for name in record.sealed_headers):
        raise Refused(
            "`headers` has Authorization, in which `api_key` is sent: give one of them, and remove the other by an "
            "empty `api_key`, or by `headers` without it"
        )


def _new_revision() -> int:
    return secrets.randbelow(_REVISIONS)
