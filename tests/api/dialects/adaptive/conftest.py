"""Fixtures for the client of adaptive-sdk, and for queries without it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from adaptive_sdk import Adaptive

from tests.gradebox.conftest import Service


@pytest.fixture
def sdk(service: Service, project: str) -> Adaptive:
    """The blocking client with the first API key, in the test's project."""
    made = Adaptive(base_url=service.url, api_key=service.key)
    made.set_default_project(project)
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
