"""Settings for models: permitted hosts and limits on replies, from `GRADEBOX_MODEL_HOSTS` and so on."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

HOST = re.compile(r"(\*|(?:\*\.)?[a-z0-9][a-z0-9._-]*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


def _hosts(value: object) -> object:
    """Parse `a,b` into a list of hosts. Raises ValueError if one is invalid."""
    if not isinstance(value, str):
        return value
    hosts = [host.strip().lower() for host in value.split(",") if host.strip()]
    for host in hosts:
        if not HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a host, host:port, *.domain, [IPv6 address] or *")
    return hosts


class ModelSettings(BaseSettings):
    """The operator's settings for models."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    model_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_hosts)] = Field(
        default=(),
        description="allowed hosts of models and endpoints: `host`, `host:port`, `*.domain`, `[IPv6 address]`, `*`",
    )
    model_private: Literal["off", "on"] = Field(
        default="off", description="whether `*` includes loopback and private addresses"
    )
    model_reply_kb: int = Field(default=4096, ge=1, le=65536, description="most KiB of one reply")
    model_connect_s: float = Field(default=10.0, gt=0, le=600, description="seconds to connect")
    kept_replies_mb: int = Field(
        default=128, ge=0, le=65536, description="MiB in Redis for the kept replies of one project; 0 keeps none"
    )
    kept_replies_days: float = Field(default=30, gt=0, le=3650, description="days for which a reply is kept")
