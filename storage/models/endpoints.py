"""The endpoints of projects: reward servers and their encrypted API keys."""

from datetime import UTC, datetime
from typing import TypedDict, Unpack

from gradebox.schemas import ProjectEndpoint
from storage import redis_keys
from storage.models.registry import RegisteredServer, Registry


class EndpointLimits(TypedDict, total=False):
    """The limits of an endpoint. None removes a limit."""

    max_concurrency: int
    requests_per_minute: int | None


class EndpointChanges(EndpointLimits, total=False):
    """The changeable members of an endpoint. An empty `api_key` removes the key."""

    url: str
    api_key: str
    timeout_s: float


class Endpoints(Registry[RegisteredServer, ProjectEndpoint]):
    """The endpoints of all projects."""

    noun = "endpoint"
    record = RegisteredServer

    def create(
        self, project: str, key: str, url: str, api_key: str, timeout_s: float, **limits: Unpack[EndpointLimits]
    ) -> ProjectEndpoint:
        """Stores a new endpoint.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has reached its quota of endpoints.
            SecretKeyError: the API key cannot be encrypted.
        """
        now = datetime.now(UTC)
        record = RegisteredServer(key=key, url=url, timeout_s=timeout_s, created_at=now, updated_at=now, **limits)
        return self._create(project, record, api_key, url)

    def update(self, project: str, key: str, changes: EndpointChanges) -> ProjectEndpoint:
        """Changes members of an endpoint.

        Raises:
            NotFound: there is no such endpoint.
            KeyNeeded: the URL changes but the API key does not: the key would be sent to a server that it was not meant
                for.
            SecretKeyError: the API key cannot be encrypted.
        """
        return self._update(project, key, changes)

    def _name(self, project: str) -> str:
        return redis_keys.endpoints(project)

    def _context(self, project: str, key: str, url: str) -> str:
        return f"endpoint {project} {key} {url}"

    def _shown(self, project: str, record: RegisteredServer) -> ProjectEndpoint:
        return ProjectEndpoint(**self._public(project, record, ProjectEndpoint))
