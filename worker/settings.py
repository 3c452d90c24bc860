"""Settings of a worker, read from the environment: `GRADEBOX_STOP_S` and so on."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    """How a worker stops, its queue and priority, and the address of its metrics."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    stop_s: float = Field(
        default=8.0, ge=0, le=86400, description="seconds for running chunks to finish when the worker stops"
    )
    queue: Literal["plain", "asking"] = Field(
        default="plain", description="batches to score: `asking` are those with graders that ask, `plain` the others"
    )
    asking_chunks: int = Field(
        default=8, ge=1, le=64, description="chunks of 100 threads in flight in a worker of the queue `asking`"
    )
    nice: int = Field(
        default=5,
        ge=0,
        le=19,
        description="nice value of workers, so that calls to the API go first; 5 more in the queue `asking`",
    )
    metrics_host: str = Field(default="127.0.0.1", description="address of this worker's /metrics")
    metrics_port: int = Field(default=0, ge=0, le=65535, description="port of this worker's /metrics; 0: none")
    metrics_file: Path | None = Field(
        default=None, description="file to which the worker writes its metrics, for the API"
    )
    health_file: Path | None = Field(
        default=None, description="file to which the worker writes every 5 s whether it can work, for `worker.health`"
    )
