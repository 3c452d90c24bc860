"""The models of projects: where each is, and its API key, encrypted."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import ModelDefaults, ModelTrial, ProjectModel
from storage import names
from storage.audit import Audit
from storage.errors import Conflict, KeyNeeded, NotFound
from storage.quotas import Quotas
from storage.secret_key import SecretKey


class _Record(msgspec.Struct, frozen=True):
    key: str
    base_url: str
    model: str
    timeout_s: float
    created_at: datetime
    updated_at: datetime
    defaults: dict[str, float | int] = {}
    revision: int = 1
    """Of what the server is asked with: a trial is kept for the revision that it tried."""
    sealed_key: str = ""
    structured_output: bool | None = None
    logprobs: bool | None = None
    tested_at: datetime | None = None


class Changes(TypedDict, total=False):
    """What may be changed of a model. An empty `api_key` is none."""

    base_url: str
    model: str
    api_key: str
    defaults: ModelDefaults
    timeout_s: float


@dataclass(frozen=True)
class Price:
    """Of a million tokens."""

    input: float
    output: float
    currency: str = "USD"


@dataclass(frozen=True)
class ModelAccess:
    """What is needed to ask a model. The key is in no text of it."""

    base_url: str
    model: str
    defaults: ModelDefaults
    timeout_s: float
    revision: int
    api_key: str = field(repr=False)
    key: str = ""
    max_concurrency: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    price: Price | None = None
    keep_replies: bool = True
    structured_output: bool | None = None


@dataclass(frozen=True)
class EndpointAccess:
    """What is needed to ask an endpoint. The API key is in no text of it."""

    key: str
    url: str
    timeout_s: float
    revision: int
    api_key: str = field(repr=False)
    max_concurrency: int = 16
    requests_per_minute: int | None = None


class Models:
    """The models of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, audit: Audit, quotas: Quotas, secret_key: SecretKey) -> None:
        self._redis = redis
        self._audit = audit
        self._quotas = quotas
        self._secret_key = secret_key

    def create(
        self, project: str, key: str, base_url: str, model: str, api_key: str, defaults: ModelDefaults, timeout_s: float
    ) -> ProjectModel:
        """Keeps a new model.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has as many as it may.
            SecretKeyError: the API key cannot be encrypted.
        """
        now = datetime.now(UTC)
        record = _Record(
            key=key,
            base_url=base_url,
            model=model,
            timeout_s=timeout_s,
            created_at=now,
            updated_at=now,
            defaults=defaults.model_dump(exclude_none=True),
            sealed_key=self._seal(project, key, base_url, api_key),
        )

        def create(pipe: Pipeline) -> ProjectModel:
            if pipe.hexists(names.models(project), key):
                raise Conflict(
                    f"there is a model {key!r} in project {project!r} already: update it, or choose another key"
                )
            self._quotas.check_models(project, pipe.hlen(names.models(project)))
            pipe.multi()
            pipe.hset(names.models(project), key, msgspec.json.encode(record))
            self._audit.write(pipe, project, "model.create", key, f"{model} at {base_url}"[:1000])
            return _shown(project, record)

        created: ProjectModel = self._transaction(project, create)
        return created

    def update(self, project: str, key: str, changes: Changes) -> ProjectModel:
        """Changes members of a model. What its server can do is unknown then, until it is tested again.

        Raises:
            NotFound: there is no such model.
            KeyNeeded: the base URL changes, and the API key does not: it would go to a server that it was not for.
            SecretKeyError: the API key cannot be encrypted.
        """

        def update(pipe: Pipeline) -> ProjectModel:
            record = _read(pipe, project, key)
            base_url = changes.get("base_url", record.base_url)
            sealed = record.sealed_key
            if "api_key" in changes:
                sealed = self._seal(project, key, base_url, changes["api_key"])
            elif base_url != record.base_url and sealed:
                raise KeyNeeded(
                    f"the API key of model {key!r} was given for another base URL: give the key again, or an empty one"
                )
            updates: dict[str, Any] = {name: value for name, value in changes.items() if name != "api_key"}
            if "defaults" in changes:
                updates["defaults"] = changes["defaults"].model_dump(exclude_none=True)
            changed = msgspec.structs.replace(
                record,
                **updates,
                sealed_key=sealed,
                revision=record.revision + 1,
                structured_output=None,
                logprobs=None,
                tested_at=None,
                updated_at=datetime.now(UTC),
            )
            pipe.multi()
            pipe.hset(names.models(project), key, msgspec.json.encode(changed))
            self._audit.write(pipe, project, "model.update", key, ", ".join(sorted(changes)))
            return _shown(project, changed)

        updated: ProjectModel = self._transaction(project, update)
        return updated

    def get(self, project: str, key: str) -> ProjectModel:
        """One model. Raises NotFound."""
        return _shown(project, _read(self._redis, project, key))

    def all(self, project: str) -> list[ProjectModel]:
        """The models of a project, by key."""
        found = (msgspec.json.decode(value, type=_Record) for value in self._redis.hvals(names.models(project)))
        return [_shown(project, record) for record in sorted(found, key=lambda record: record.key)]

    def access(self, project: str, key: str) -> ModelAccess:
        """What is needed to ask a model.

        Raises:
            NotFound: there is no such model.
            SecretKeyError: its API key cannot be decrypted.
        """
        record = _read(self._redis, project, key)
        context = _context(project, key, record.base_url)
        api_key = self._secret_key.open(record.sealed_key, context) if record.sealed_key else ""
        defaults = ModelDefaults.model_validate(record.defaults)
        return ModelAccess(
            record.base_url,
            record.model,
            defaults,
            record.timeout_s,
            record.revision,
            api_key,
            key,
            structured_output=record.structured_output,
        )

    def note_trial(self, project: str, key: str, revision: int, trial: ModelTrial) -> None:
        """Keeps what a server can do, unless the model was changed meanwhile. A failed trial tells nothing."""

        def note(pipe: Pipeline) -> None:
            value = pipe.hget(names.models(project), key)
            record = msgspec.json.decode(value, type=_Record) if value is not None else None
            pipe.multi()
            if record is not None and record.revision == revision and trial.passed:
                tested = msgspec.structs.replace(
                    record,
                    structured_output=trial.structured_output,
                    logprobs=trial.logprobs,
                    tested_at=datetime.now(UTC),
                )
                pipe.hset(names.models(project), key, msgspec.json.encode(tested))
            if record is not None:
                self._audit.write(pipe, project, "model.test", key, "passed" if trial.passed else "failed")

        self._transaction(project, note)

    def delete(self, project: str, key: str) -> None:
        """Forgets a model with its API key. Raises NotFound."""

        def delete(pipe: Pipeline) -> None:
            _read(pipe, project, key)
            pipe.multi()
            pipe.hdel(names.models(project), key)
            self._audit.write(pipe, project, "model.delete", key)

        self._transaction(project, delete)

    def _seal(self, project: str, key: str, base_url: str, api_key: str) -> str:
        return self._secret_key.seal(api_key, _context(project, key, base_url)) if api_key else ""

    def _transaction(self, project: str, change: Any) -> Any:
        """Runs `change` again when what it has read was changed by another meanwhile."""
        return self._redis.transaction(change, names.models(project), value_from_callable=True)


def _context(project: str, key: str, base_url: str) -> str:
    """What an API key is for: nobody who writes to Redis can have it sent elsewhere."""
    return f"{project} {key} {base_url}"


def _read(redis: Redis, project: str, key: str) -> _Record:
    value = redis.hget(names.models(project), key)
    if value is None:
        raise NotFound(f"there is no model {key!r} in project {project!r}: list the models to see which there are")
    return msgspec.json.decode(value, type=_Record)


def _shown(project: str, record: _Record) -> ProjectModel:
    return ProjectModel(
        project=project,
        key=record.key,
        base_url=record.base_url,
        model=record.model,
        has_api_key=bool(record.sealed_key),
        defaults=ModelDefaults.model_validate(record.defaults),
        timeout_s=record.timeout_s,
        structured_output=record.structured_output,
        logprobs=record.logprobs,
        tested_at=record.tested_at,
        created_at=record.created_at,
        updated_at=record.updated_at,
    )
