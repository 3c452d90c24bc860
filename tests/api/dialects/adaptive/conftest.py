"""Fixtures for the client of adaptive-sdk, and for queries without it.

The SDK takes half a second to import: each test process would spend it on collecting the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from adaptive_sdk import Adaptive


@pytest.fixture
def sdk(service: Service, project: str) -> Adaptive:
    """The blocking client with the first API key, in the test's project."""
    from adaptive_sdk import Adaptive

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


def refused(match: str) -> AbstractContextManager[object]:
    """Expects an error of the API, raised by the SDK."""
    from adaptive_sdk.graphql_client.exceptions import GraphQLClientGraphQLMultiError

    return pytest.raises(GraphQLClientGraphQLMultiError, match=match)
