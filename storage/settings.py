"""Settings of the storage. Each field is read from the environment, for example from GRADEBOX_REDIS_URL."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis.connection import parse_url

from storage.access.audit import LINES
from storage.queue.leases import ATTEMPTS

_MOST = 10**9  # of counts that Redis and its scripts take as whole numbers


def _redis_url(text: str) -> str:
    try:
        parse_url(text)  # type: ignore[no-untyped-call]
    except ValueError as error:  # its message may hold a part of the password
        raise ValueError(
            "write redis://HOST:PORT/0, rediss:// or unix://; / # ? in a password are %2F %23 %3F"
        ) from error
    return text


class StorageSettings(BaseSettings):
    """The storage settings of a deployment; all of its processes need the same."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_")

    redis_url: Annotated[str, AfterValidator(_redis_url)] = Field(
        default="redis://127.0.0.1:6379/0", description="URL of Redis: redis://, rediss:// or unix://"
    )
    data_dir: Path = Field(
        default=Path(".gradebox"), description="data folder: holds the first API key and, by default, the spool"
    )
    secret_key_file: Path | None = Field(
        default=None,
        description="key file that encrypts API keys of models and endpoints; by default in the data folder",
    )
    spool_url: str = Field(default="", description="fsspec URL for payloads and outcomes; empty: the data folder")
    waiting_completions: int = Field(
        default=20_000_000, ge=1, le=_MOST, description="waiting completions of one project, counted for each grader"
    )
    waiting_batches: int = Field(default=10_000, ge=1, le=_MOST, description="unfinished batches of one project")
    projects: int = Field(default=10_000, ge=1, description="most projects of the service")
    project_graders: int = Field(default=2000, ge=1, description="most graders of one project")
    grader_versions: int = Field(default=1000, ge=1, description="most versions of one grader")
    project_sources_mb: int = Field(default=1024, ge=1, description="MiB for the grader versions of one project")
    environment_builds: int = Field(
        default=100, ge=1, description="most environment builds of one project, failed ones included"
    )
    project_models: int = Field(default=100, ge=1, description="most models of one project")
    project_endpoints: int = Field(default=100, ge=1, description="most endpoints of one project")
    project_batches: int = Field(default=100_000, ge=1, le=_MOST, description="most stored batches of one project")
    project_spool_gb: int = Field(
        default=0, ge=0, le=_MOST, description="GiB in the spool for one project; 0: half of the disk"
    )
    audit_lines: int = Field(default=LINES, ge=1, le=_MOST, description="audit lines kept for each project")
    attempts: int = Field(default=ATTEMPTS, ge=1, le=1000, description="tries of a chunk that never completes")
    retention_days: float = Field(
        default=30, ge=0, description="days for which a batch is stored after its end, unless it is kept; 0: forever"
    )
    reserve_mb: int = Field(
        default=256, ge=0, description="MiB that uploads leave free on the disk; outcomes may use three quarters of it"
    )

    @property
    def secret_key(self) -> Path:
        """The path of the key file, or its default."""
        return self.secret_key_file or self.data_dir / "secret-key"

    @property
    def retention_s(self) -> float | None:
        """The retention time in seconds; None for no limit."""
        return self.retention_days * 24 * 3600 or None

    @property
    def spool(self) -> str:
        """The URL of the spool, or its default."""
        return self.spool_url or f"file://{self.data_dir.resolve()}/spool"
