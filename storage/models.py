"""The models of projects: their URLs, settings, prices and encrypted API keys."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

import msgspec

from gradebox.schemas import ModelDefaults, ModelTrial, Price, ProjectModel
from storage import redis_keys
from storage.registry import MAX_CONCURRENCY, RegisteredServer, Registry


class _Record(RegisteredServer, frozen=True, kw_only=True):
    url: str = msgspec.field(name="base_url")
    model: str
    defaults: dict[str, float | int] = msgspec.field(default_factory=dict)
    structured_output: bool | None = None
    logprobs: bool | None = None
    tokens_per_minute: int | None = None
    price: Price | None = None
    keep_replies: bool = True


class LimitFields(TypedDict, total=False):
    """The limits and prices of a model. None removes a limit."""

    max_concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    price: Price | None
    keep_replies: bool


class Changes(LimitFields, total=False):
    """The changeable members of a model. An empty `api_key` removes the key."""

    base_url: str
    model: str
    api_key: str
    defaults: ModelDefaults
    timeout_s: float


@dataclass(frozen=True)
class ModelAccess:
    """The settings needed to ask a model. Its repr omits the API key.

    Attributes:
        revision: of the settings that requests depend on: changes with the URL, the name, the API key, the defaults,
            the timeout or the concurrency.
        account: of the server's limits: changes with the URL, the name or the API key.
        structured_output: the result of a test; None if not tested.
    """

    base_url: str
    model: str
    defaults: ModelDefaults
    timeout_s: float
    revision: int
    api_key: str = field(repr=False)
    key: str = ""
    max_concurrency: int = MAX_CONCURRENCY
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    price: Price | None = None
    keep_replies: bool = True
    structured_output: bool | None = None
    account: int = 1


class Models(Registry[_Record, ProjectModel]):
    """The models of all projects."""

    noun = "model"
    asked_with = Registry.asked_with | {"model", "defaults"}
    limited_by = Registry.limited_by | {"model"}
    record = _Record

    def create(
        self,
        project: str,
        key: str,
        base_url: str,
        model: str,
        api_key: str,
        defaults: ModelDefaults,
        timeout_s: float,
        **limits: Unpack[LimitFields],
    ) -> ProjectModel:
        """Stores a new model.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has reached its quota of models.
            SecretKeyError: the API key cannot be encrypted.
        """
        now = datetime.now(UTC)
        record = _Record(
            key=key,
            url=base_url,
            model=model,
            timeout_s=timeout_s,
            created_at=now,
            updated_at=now,
            defaults=defaults.model_dump(exclude_none=True),
            **limits,
        )
        return self._create(project, record, api_key, f"{model} at {base_url}")

    def update(self, project: str, key: str, changes: Changes) -> ProjectModel:
        """Changes members of a model. Unless only `LimitFields` change, the capabilities of its server are unknown
        until it is tested again.

        Raises:
            NotFound: there is no such model.
            KeyNeeded: the base URL changes but the API key does not: the key would be sent to a server that it was not
                meant for.
            SecretKeyError: the API key cannot be encrypted.
        """
        updates: dict[str, Any] = {("url" if name == "base_url" else name): of for name, of in changes.items()}
        if "defaults" in changes:
            updates["defaults"] = changes["defaults"].model_dump(exclude_none=True)
        return self._update(project, key, updates)

    def unpriced(self, project: str, currency: str) -> list[str]:
        """The keys of the models without a price in this currency, in alphabetical order."""
        return sorted(one.key for one in self.all(project) if one.price is None or one.price.currency != currency)

    def access(self, project: str, key: str) -> ModelAccess:
        """The settings needed to ask a model.

        Raises:
            NotFound: there is no such model.
            SecretKeyError: its API key cannot be decrypted.
        """
        record, api_key = self._opened(project, key)
        return ModelAccess(
            base_url=record.url,
            model=record.model,
            defaults=ModelDefaults.model_validate(record.defaults),
            timeout_s=record.timeout_s,
            revision=record.revision,
            api_key=api_key,
            key=key,
            max_concurrency=record.max_concurrency,
            requests_per_minute=record.requests_per_minute,
            tokens_per_minute=record.tokens_per_minute,
            price=record.price,
            keep_replies=record.keep_replies,
            structured_output=record.structured_output,
            account=record.account,
        )

    def note_trial(self, project: str, key: str, revision: int, trial: ModelTrial) -> None:
        """Records the capabilities of a server, unless the model was changed meanwhile or the test failed."""
        found = {"structured_output": trial.structured_output, "logprobs": trial.logprobs}
        self._note_trial(project, key, revision, trial.passed, found)

    def _name(self, project: str) -> str:
        return redis_keys.models(project)

    def _context(self, project: str, key: str, url: str) -> str:
        return f"{project} {key} {url}"

    def _untested(self) -> dict[str, Any]:
        return {"structured_output": None, "logprobs": None}

    def _shown(self, project: str, record: _Record) -> ProjectModel:
        return ProjectModel(**self._public(project, record, ProjectModel), base_url=record.url)
