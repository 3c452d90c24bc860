"""Requests about API keys, projects and the audit log."""

from collections.abc import Sequence
from typing import TypedDict
from urllib.parse import quote

from pydantic import TypeAdapter

from gradebox.client.calls.call import Call, encode, nothing
from gradebox.client.calls.paths import path_of, query
from gradebox.options import check_known
from gradebox.schemas import ApiKey, AuditLine, Project, ProjectLimits, Role, SignInLink

_audit = TypeAdapter(list[AuditLine]).validate_json
_keys = TypeAdapter(list[ApiKey]).validate_json
_projects = TypeAdapter(list[Project]).validate_json
_limits = ProjectLimits.model_validate_json


class LimitOptions(TypedDict, total=False):
    """Limits of a project. Those that are None are not sent."""

    source_bytes: int | None
    """Bytes of a grader's source."""
    timeout_s: float | None
    """Seconds that a grader may have for one completion."""
    memory_mb: int | None
    """MiB that a grader may have."""
    score_threads: int | None
    """Threads of a request that grades or checks."""
    score_mb: int | None
    """MiB of such a request."""
    batch_threads: int | None
    """Threads of a batch."""
    batch_mb: int | None
    """MiB of the threads of a batch, sent as JSON lines."""
    batch_graders: int | None
    """Graders of a batch."""


def create_key(name: str, projects: Sequence[str], role: Role) -> Call[ApiKey]:
    """Creates an API key; this answer is the only one that holds its secret."""
    body = encode({"name": name, "projects": list(projects), "role": role})
    return Call("POST", "/v1/keys", ApiKey.model_validate_json, body=body, idempotent=False)


def me() -> Call[ApiKey]:
    """Requests the client's API key."""
    return Call("GET", "/v1/me", ApiKey.model_validate_json)


def sign_in() -> Call[SignInLink]:
    """Requests a link that signs a browser in."""
    return Call("POST", "/v1/me/sign-in", SignInLink.model_validate_json, idempotent=False)


def list_keys() -> Call[list[ApiKey]]:
    """Requests all API keys, without their secrets."""
    return Call("GET", "/v1/keys", _keys)


def revoke_key(key: str) -> Call[None]:
    """Revokes the API key with this id."""
    return Call("DELETE", f"/v1/keys/{quote(key, safe='')}", nothing)


def create_project(key: str) -> Call[Project]:
    """Creates a project."""
    return Call("POST", "/v1/projects", Project.model_validate_json, body=encode({"key": key}), idempotent=False)


def list_projects() -> Call[list[Project]]:
    """Requests the projects that the API key covers."""
    return Call("GET", "/v1/projects", _projects)


def get_limits(project: str) -> Call[ProjectLimits]:
    """Requests the limits of a project."""
    return Call("GET", path_of(project, "limits"), _limits)


def change_limits(project: str, limits: LimitOptions) -> Call[ProjectLimits]:
    """Changes limits of a project. Raises TypeError for an unknown limit."""
    check_known(limits, LimitOptions.__annotations__, "a project's limits")
    return Call("PATCH", path_of(project, "limits"), _limits, body=encode(limits))


def delete_limits(project: str) -> Call[None]:
    """Removes the own limits of a project."""
    return Call("DELETE", path_of(project, "limits"), nothing)


def list_audit(project: str | None, limit: int, before: str | None) -> Call[list[AuditLine]]:
    """Requests the newest changes in a project; without a project, those of API keys and projects."""
    path = "/v1/audit" if project is None else path_of(project, "audit")
    return Call("GET", path, _audit, params=query(limit=limit, before=before))
