"""Settings of environments: whether they may be built, from which index, and of what: `GRADEBOX_ENVIRONMENTS` and so
on.
"""

from typing import Annotated, Literal

from packaging.utils import canonicalize_name
from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from worker.environments.data_zip import MOST_MB


def _names(value: object) -> object:
    """Splits a string such as `a, b` into names of packages, each in its canonical form."""
    if isinstance(value, str):
        return [canonicalize_name(name.strip()) for name in value.split(",") if name.strip()]
    return value


class EnvironmentSettings(BaseSettings):
    """The operator's settings of environments; the API and all workers need the same."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    environments: Literal["off", "on"] = Field(default="off", description="whether new environments may be built")
    environments_index: str = Field(
        default="", description="URL of the package index; empty: the one that uv or pip uses on this machine"
    )
    environment_data_mb: int = Field(
        default=256, ge=1, le=MOST_MB, description="MiB of one environment's data, as sent"
    )
    environment_packages: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(), description="the only packages allowed in environments, dependencies included; empty: any"
    )
