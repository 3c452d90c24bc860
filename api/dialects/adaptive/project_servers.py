"""The models and endpoints of a project, as the SDK's graders refer to them: models by key, endpoints by URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from api.routes.registered_servers import TIMEOUT_S, allowed
from api.services import Services
from storage.store import Store


class ProjectServers:
    """The models and endpoints of a project, read from storage on first use."""

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project

    @cached_property
    def _models(self) -> set[str]:
        return {model.key for model in self._store.models.all(self._project)}

    @cached_property
    def _urls(self) -> dict[str, str]:
        return {endpoint.key: endpoint.url for endpoint in self._store.endpoints.all(self._project)}

    def has_model(self, key: str) -> bool:
        """Whether there is a model with this key."""
        return key in self._models

    def url_of(self, endpoint: str) -> str:
        """The URL of an endpoint; empty if there is none with this key."""
        return self._urls.get(endpoint, "")


@contextmanager
def endpoint_at(services: Services, project: str, url: str, grader: str) -> Iterator[str]:
    """Yields the key of the project's endpoint at this URL. If there is none, one is registered under the grader's key
    or a similar one. It is removed again if the block fails, because no grader uses it then.

    Raises:
        ProblemError: the URL is invalid, or the operator does not allow its host.
        QuotaExceeded: the project has reached its limit of endpoints.
    """
    endpoints = services.store.endpoints
    wanted, there = allowed(services, url), {one.key: one.url for one in endpoints.all(project)}
    if (found := next((key for key, its in there.items() if its == wanted), None)) is not None:
        yield found
        return
    names = (grader, *(f"{grader[:60]}-{number}" for number in range(2, len(there) + 3)))
    key = next(name for name in names if name not in there)
    endpoints.create(project, key, wanted, "", TIMEOUT_S)
    try:
        yield key
    except BaseException:
        endpoints.delete(project, key)
        raise
