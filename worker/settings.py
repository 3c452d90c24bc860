"""What a worker is told by the environment: `GRADEBOX_STOP_S` and so on."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    """How a worker stops, and how far it stands back."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    stop_s: float = Field(default=8.0, ge=0, description="seconds that the chunk at hand may still take")
    nice: int = Field(default=5, ge=0, le=19, description="for batches, so that whoever waits at the API goes first")
