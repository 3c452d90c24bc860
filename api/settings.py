"""The settings of the API, read from environment variables such as `GRADEBOX_HOST`."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gradebox.limits import REQUEST_BYTES, REQUEST_THREADS
from storage.spool.chunks import BATCH_BYTES, BATCH_LINES, MAX_BATCH_LINES

MAX_SCORE_THREADS, MAX_SCORE_MB = 100_000, 64  # the least of `body_memory_mb` is 64 MiB
MAX_BATCH_MB, MAX_BATCH_GRADERS = 10**9, 64
_SECRET_CHARACTERS = 16
_MIB = 1024 * 1024

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


def _path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", value):
        raise ValueError(f"{value!r} is no path, such as /gradebox, without a slash at its end")
    return value


def _addresses(value: str) -> str:
    """Refuses what Uvicorn would compare as text, and which thus names no proxy."""
    for proxy in value.split(",") if value not in ("", "*") else ():
        try:
            ipaddress.ip_network(proxy.strip())
        except ValueError:
            raise ValueError(
                f"{proxy.strip()!r} is no address, such as 10.0.0.1, nor a network, such as 10.0.0.0/8, nor * alone"
            ) from None
    return value


class ApiSettings(BaseSettings):
    """The API's address and limits, the dialects it serves, and who may read its metrics."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8000, ge=0, le=65535)
    socket_fd: int | None = Field(
        default=None, description="descriptor of an inherited listening socket, used instead of host and port"
    )
    stop_s: float = Field(
        default=8.0, ge=0, le=86400, description="seconds for running requests to finish when the API stops"
    )
    failed_keys: int = Field(default=100, ge=1, description="wrong API keys allowed from one address in a minute")
    strangers: int = Field(
        default=100, ge=1, description="requests a second allowed from one address without a valid API key"
    )
    idempotency_s: int = Field(
        default=24 * 3600,
        ge=1,
        le=3650 * 24 * 3600,
        description="seconds for which answers are kept for repeated requests",
    )
    score_s: float = Field(default=600.0, gt=0, description="seconds that a synchronous scoring call may take")
    score_threads: int = Field(
        default=REQUEST_THREADS,
        ge=1,
        le=MAX_SCORE_THREADS,
        description="threads of one request that grades or checks; their outcomes are held in memory",
    )
    score_mb: int = Field(
        default=REQUEST_BYTES // _MIB,
        ge=1,
        le=MAX_SCORE_MB,
        description="MiB of one request that grades or checks; at most the least of `body_memory_mb`",
    )
    batch_threads: int = Field(
        default=BATCH_LINES,
        ge=1,
        le=MAX_BATCH_LINES,
        description="threads of one batch; at most what the pages of its table show",
    )
    batch_mb: int = Field(
        default=BATCH_BYTES // _MIB,
        ge=1,
        le=MAX_BATCH_MB,
        description="MiB of the threads of one batch, sent as JSON lines",
    )
    batch_graders: int = Field(
        default=16,
        ge=1,
        le=MAX_BATCH_GRADERS,
        description="graders of one batch; each reader of its outcomes may take 1 MiB of memory for each of them",
    )
    connections: int = Field(default=1000, ge=1, description="simultaneous connections to one API process")
    body_memory_mb: int = Field(
        default=512, ge=64, description="MiB of memory for the request bodies of one API process"
    )
    answer_memory_mb: int = Field(
        default=256, ge=64, description="MiB of answers of one API process that clients have not read yet"
    )
    bootstrap_resamples: int = Field(
        default=1000, ge=0, le=10_000, description="bootstrap resamples of a confidence interval; 0: normal intervals"
    )
    proxies: Annotated[str, AfterValidator(_addresses)] = Field(
        default="", description="reverse proxies whose X-Forwarded-For is used: addresses, networks, or *"
    )
    dialects: Annotated[tuple[Dialect, ...], NoDecode, BeforeValidator(_listed)] = Field(
        default=get_args(Dialect), description="enabled interfaces for clients of other services"
    )
    langfuse_secret: Annotated[SecretStr | None, BeforeValidator(_or_none), AfterValidator(_long)] = Field(
        default=None,
        description="secret that signs Langfuse's requests; if unset, its evaluators are not run",
    )
    langfuse_external: Literal["bearer", "signature"] = Field(
        default="bearer",
        description="how Langfuse's `external` dispatcher sends the secret. `bearer`: as in the proposal of that "
        "dispatcher. The released dispatcher signs its requests, but no source that was read names its header and "
        "algorithm: `signature` assumes that requests are signed like Langfuse's webhooks",
    )
    root_path: Annotated[str, AfterValidator(_path)] = Field(
        default="", description="path at which a reverse proxy has the service; the proxy removes it from requests"
    )
    ui: Literal["on", "off"] = Field(default="on", description="whether to serve the pages for the browser at /")
    metrics: Literal["local", "key", "all"] = Field(
        default="local",
        description="who may read /metrics: this machine without a key, only API keys for every project, or everyone",
    )
    metrics_dir: Path | None = Field(
        default=None, description="folder with the metrics files of workers, served along with the API's own metrics"
    )
    asking_file: Path | None = Field(
        default=None,
        description="file that is created for batches with graders that ask",
    )
    registering_file: Path | None = Field(
        default=None,
        description="file that exists until the models and endpoints of `gradebox serve` are registered",
    )
