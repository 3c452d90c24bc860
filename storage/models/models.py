"""The models of projects: their URLs, settings, prices and encrypted API keys."""

from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from gradebox.schemas import ModelDefaults, ProjectModel
from storage import redis_keys
from storage.models.registry import RegisteredServer, Registry


class Price(NamedTuple):
    """What a million tokens cost, in US dollars."""

    input: float
    output: float


class RegisteredModel(RegisteredServer, frozen=True, kw_only=True):
    """The stored record of a model. `structured_output` and `logprobs` are None if not tested."""

    url: str = msgspec.field(name="base_url")
    model: str
    defaults: dict[str, float | int] = msgspec.field(default_factory=dict)
    structured_output: bool | None = None
    logprobs: bool | None = None
    tokens_per_minute: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    keep_replies: bool = True

    @property
    def price(self) -> Price | None:
        """Its prices; None if one is not known, so that no budget of money relies on the other."""
        if self.input_price is None or self.output_price is None:
            return None
        return Price(self.input_price, self.output_price)


class LimitFields(TypedDict, total=False):
    """The limits and prices of a model. None removes a limit."""

    max_concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    input_price: float
    output_price: float
    keep_replies: bool


class Changes(LimitFields, total=False):
    """The changeable members of a model. An empty `api_key` removes the key."""

    base_url: str
    model: str
    api_key: str
    defaults: ModelDefaults
    timeout_s: float


class Models(Registry[RegisteredModel, ProjectModel]):
    """The models of all projects."""

    noun = "model"
    asked_with = Registry.asked_with | {"model", "defaults"}
    limited_by = Registry.limited_by | {"model"}
    tested = ("structured_output", "logprobs")
    record = RegisteredModel
    schema = ProjectModel
    name_of = staticmethod(redis_keys.models)

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
        record = RegisteredModel(
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

    def unpriced(self, project: str) -> list[str]:
        """The keys of the models without prices, in alphabetical order."""
        return [one.key for one in self.all(project) if one.input_price is None or one.output_price is None]
