"""API keys, projects, and the audit log."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from gradebox.schemas.base import Schema

Role = Literal["read", "score", "manage"]
ROLES: tuple[Role, ...] = ("read", "score", "manage")  # each includes the permissions of those before it
KEY_COLUMNS = ("id", "name", "projects", "role", "revoked", "created_at")


class ApiKey(Schema):
    """An API key without its secret, which is shown once, when the key is created."""

    id: str
    name: str
    projects: list[str] = Field(description='"*" means every project')
    role: Role = Field("manage", description="what it may do there; `manage` for every project includes API keys")
    created_at: datetime
    revoked: bool
    secret: str | None = Field(None, description="the key to send; only in the answer that created it")


class SignInLink(Schema):
    """A link that signs a browser in to the web pages."""

    path: str = Field(description="path below the service's URL; valid once, within a day")


class Limits(Schema):
    """What the graders, requests and batches of a project may have."""

    source_bytes: int = Field(description="bytes of a grader's source")
    timeout_s: float = Field(description="seconds that a grader may have for one completion")
    memory_mb: int = Field(description="MiB that a grader may have")
    score_threads: int = Field(description="threads of a request that grades or checks")
    score_mb: int = Field(description="MiB of such a request")
    batch_threads: int = Field(description="threads of a batch")
    batch_mb: int = Field(description="MiB of the threads of a batch, sent as JSON lines")
    batch_graders: int = Field(description="graders of a batch")

    @property
    def score_bytes(self) -> int:
        """`score_mb` in bytes."""
        return self.score_mb << 20

    @property
    def batch_bytes(self) -> int:
        """`batch_mb` in bytes."""
        return self.batch_mb << 20


class ProjectLimits(Schema):
    """The limits of a project."""

    limits: Limits = Field(description="what the project has")
    defaults: Limits = Field(description="what the service gives a project that has no limits of its own")
    own: list[str] = Field(description="names of the limits that are the project's own")


class Project(Schema):
    """A project separates the graders and batches of one team from those of others."""

    key: str
    name: str = ""
    description: str = ""
    created_at: datetime
    limits: dict[str, int | float] = Field({}, description="its own limits; the others are those of the service")

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key}{f': {self.description}' if self.description else ''}")


class AuditLine(Schema):
    """One change: its author, action, object, time and client address."""

    id: str = Field(description="id from which to read on")
    at: datetime
    key: str = Field(description="id of the API key")
    address: str = Field(description="address of the client")
    request_id: str
    action: str = Field(description="kind of change, such as grader.update or batch.cancel")
    object: str = Field(description="key of the grader, or id of the batch or API key")
    detail: str = Field(description="further details, such as the new version")
