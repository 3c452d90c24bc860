"""The endpoints of projects: reward servers, with their encrypted API keys and headers."""

from collections.abc import Mapping
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
    """The changeable members of an endpoint. An empty `api_key` removes the key. `headers` replace all."""

    url: str
    api_key: str
    headers: Mapping[str, str]
    timeout_s: float


class Endpoints(Registry[RegisteredServer, ProjectEndpoint]):
    """The endpoints of all projects."""

    noun = "endpoint"
    record = RegisteredServer
    schema = ProjectEndpoint
    name_of = staticmethod(redis_keys.endpoints)
    context = "endpoint "

    def create(
        self,
        project: str,
        key: str,
        url: str,
        api_key: str,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
        **limits: Unpack[EndpointLimits],
    ) -> ProjectEndpoint:
        """Stores a new endpoint.

        Raises:
            Conflict: the key is taken.
            QuotaExceeded: the project has reached its quota of endpoints.
            Refused: there is an API key, and a header Authorization.
            SecretKeyError: the API key or a header cannot be encrypted.
        """
        now = datetime.now(UTC)
        record = RegisteredServer(key=key, url=url, timeout_s=timeout_s, created_at=now, updated_at=now, **limits)
        return self._create(project, record, api_key, url, headers)

    def update(self, project: str, key: str, changes: EndpointChanges) -> ProjectEndpoint:
        """Changes members of an endpoint.

        Raises:
            NotFound: there is no such endpoint.
            KeyNeeded: the URL changes, and the API key or headers are not given again: they would be sent to a server
                that they were not meant for.
            Refused: there would be an API key, and a header Authorization.
            SecretKeyError: the API key or a header cannot be encrypted.
        """
        return self._update(project, key, changes)
