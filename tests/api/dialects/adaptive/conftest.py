"""Fixtures for both clients of adaptive-sdk."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from adaptive_sdk import Adaptive, AsyncAdaptive

from tests.gradebox.conftest import Service


class Sdk:
    """A client of the SDK. It awaits results where necessary."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self.client = client
        self._runner = runner

    def __call__(self, ask: Callable[[Any], Any]) -> Any:
        async def awaited() -> Any:
            answer = ask(self.client)
            return await answer if inspect.isawaitable(answer) else answer

        return self._runner.run(awaited()) if isinstance(self.client, AsyncAdaptive) else ask(self.client)

    def graders(self, ask: Callable[[Any], Any]) -> Any:
        """Calls `client.graders`."""
        return self(lambda client: ask(client.graders))


@pytest.fixture(params=[Adaptive, AsyncAdaptive], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def sdk_of(service: Service, kind: Any) -> Iterator[Callable[[str], Sdk]]:
    """Makes a client for an API key."""
    with asyncio.Runner() as runner:
        yield lambda key: Sdk(kind(base_url=service.url, api_key=key), runner)


@pytest.fixture
def sdk(sdk_of: Callable[[str], Sdk], service: Service, project: str) -> Sdk:
    """A client with the first API key, in the test's project."""
    made = sdk_of(service.key)
    made.client.set_default_project(project)
    return made


@pytest.fixture
def ask(service: Service) -> Callable[..., dict[str, Any]]:
    """Sends a query without an SDK. The answer must have status 200."""

    def send(query: object, key: str | None = None, **variables: object) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {key or service.key}"}
        body = {"query": query, "variables": variables}
        response = httpx.post(f"{service.url}/api/graphql", json=body, headers=headers, timeout=60)
        assert response.status_code == 200
        answer: dict[str, Any] = response.json()
        return answer

    return send
