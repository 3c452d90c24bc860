"""Settings of a worker, read from the environment: `GRADEBOX_STOP_S` and so on."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    """How a worker stops, its queue and priority, and the address of its metrics."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    stop_s: float = Field(default=8.0, ge=0, description="seconds that the chunk at hand may still take")
    queue: Literal["plain", "asking"] = Field(
        default="plain", description="which batches: those whose graders ask nothing, or the others"
    )
    asking_chunks: int = Field(
        default=8, ge=1, le=64, description="of a worker of the queue `asking`: chunks of 100 threads in flight"
    )
    nice: int = Field(
        default=5, ge=0, le=19, description="for batches, so that calls to the API go first; 5 more where they ask"
    )
    metrics_host: str = Field(default="127.0.0.1", description="the address that this worker's /metrics listens on")
    metrics_port: int = Field(default=0, ge=0, le=65535, description="the port of it; 0: it has none")
    metrics_file: Path | None = Field(default=None, description="a file that it writes its metrics to, for the API")
