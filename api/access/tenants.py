"""The tenant of a request: those who share its limits of connections, memory and large answers."""

from collections.abc import Mapping
from typing import Any

from gradebox.schemas import ApiKey
from storage.access.api_keys import EVERY_PROJECT

_KEY = "key:"  # no key of a project has a colon
TENANT = "tenant"
"""The tenant's name in the state of a request."""


def name_of(key: ApiKey, project: str | None) -> str:
    """The project that a request is for, if the API key covers it; so more keys get no larger share. A request for no
    project counts for the projects of its key together, or for the key itself if it covers every project.
    """
    if project is not None and (project in key.projects or EVERY_PROJECT in key.projects):
        return project
    if EVERY_PROJECT in key.projects or not key.projects:
        return f"{_KEY}{key.id}"
    return ",".join(sorted(key.projects))


def tenant_of(scope: Mapping[str, Any]) -> str:
    """The tenant of a request; empty if its API key is unknown."""
    return str(scope["state"].get(TENANT, ""))


def shown(tenant: str) -> str:
    """The tenant in a message to it."""
    if not tenant:
        return "callers whose API key is not known yet"
    if tenant.startswith(_KEY):
        return "this API key"
    return "these projects" if "," in tenant else "this project"
