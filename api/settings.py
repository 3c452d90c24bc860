"""The settings of the API, read from environment variables such as `GRADEBOX_HOST`."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_SECRET_CHARACTERS = 16

Dialect = Literal["adaptive", "langfuse", "openai", "promptfoo", "reward", "weave"]


def _listed(value: object) -> object:
    """Splits `a,b` into a list; an empty string is an empty list."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _or_none(value: object) -> object:
    """Treats an empty variable, as compose.yaml sets, as unset."""
    return value or None


def _long(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and (length := len(secret.get_secret_value())) < _SECRET_CHARACTERS:
        raise ValueError(f"it needs at least {_SECRET_CHARACTERS} characters, and has {length}")
    return secret


class ApiSettings(BaseSettings):
    """The API's address and limits, the dialects it serves, and who may read its metrics."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8000, ge=0, le=65535)
    socket_fd: int | None = Field(default=None, description="a listening socket that was passed on, instead of both")
    stop_s: float = Field(default=8.0, ge=0, description="seconds that requests may still take when the API is to stop")
    failed_keys: int = Field(default=100, ge=1, description="wrong API keys that an address may send in a minute")
    strangers: int = Field(default=100, ge=1, description="requests a second of an address without a good API key")
    idempotency_s: int = Field(default=24 * 3600, ge=1, description="how long answers are kept to be repeated")
    score_s: float = Field(default=600.0, gt=0, description="seconds that a call may take which grades while it waits")
    connections: int = Field(default=1000, ge=1, description="at once")
    body_memory_mb: int = Field(default=512, ge=64, description="MiB that bodies of all requests may take in memory")
    answer_memory_mb: int = Field(default=256, ge=64, description="MiB of answers that all clients may leave unread")
    bootstrap_resamples: int = Field(
        default=1000, ge=0, le=10_000, description="of a confidence interval; 0: intervals are normal ones"
    )
    proxies: str = Field(default="", description="whose X-Forwarded-For is believed: addresses or networks, or *")
    dialects: Annotated[tuple[Dialect, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=get_args(Dialect), description="other services' clients that are answered"
    )
    langfuse_secret: Annotated[SecretStr | None, BeforeValidator(_or_none), AfterValidator(_long)] = Field(
        default=None,
        description="what Langfuse's requests must be signed with; without one, none of its evaluators is run",
    )
    langfuse_external: Literal["bearer", "signature"] = Field(
        default="bearer",
        description="how the requests of Langfuse's `external` dispatcher bring the secret. `bearer` is what the "
        "proposal of that dispatcher did. The released one signs its requests, and by which header and algorithm is "
        "in no source that was read for this: `signature` takes them to be signed as Langfuse signs its webhooks",
    )
    allowed_endpoints: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=(), description="hosts of reward servers elsewhere that a tenant may have asked: `host` or `host:port`"
    )
    ui: Literal["on", "off"] = Field(default="on", description="whether there are pages for the browser, at /")
    metrics: Literal["local", "key", "all"] = Field(
        default="local", description="who reads /metrics: this machine, keys for every project alone, or all"
    )
    metrics_dir: Path | None = Field(
        default=None, description="a folder of files with the metrics of workers, told along with the API's own"
    )
    asking_file: Path | None = Field(
        default=None,
        description="a file that is made for the first batch with graders that ask",
    )
