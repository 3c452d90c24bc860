"""Tests of `graders.test_external_endpoint` with a real reward server."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from adaptive_sdk import Adaptive
from adaptive_sdk.external import EmptyMetadata, Response, RewardServer, ServerInfo, ValidatedRequest

from tests.api.dialects.adaptive.conftest import Sdk
from tests.gradebox.conftest import serving

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


class Lengths(RewardServer[EmptyMetadata]):  # type: ignore[misc]  # the SDK has no types
    async def score(self, request: ValidatedRequest[EmptyMetadata]) -> Response:
        return Response(reward=float(len(request.turns[-1].content)), metadata={})

    async def info(self) -> ServerInfo:
        return ServerInfo(version="7", name="lengths", description="how long it is")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = Lengths(port, EmptyMetadata, blocking=False)
    url = f"http://127.0.0.1:{port}"
    for _ in range(100):
        try:
            httpx.get(f"{url}/info")
            break
        except httpx.ConnectError:
            time.sleep(0.05)
    yield url
    server.server.stop()


def test_nothing_is_asked_unless_the_operator_allows_it(sdk: Sdk, endpoint: str) -> None:
    told = sdk(lambda client: client.graders.test_external_endpoint(endpoint))
    assert "GRADEBOX_ALLOWED_ENDPOINTS" in told.error


def test_an_allowed_server_is_asked_what_it_is(endpoint: str, tmp_path: Path) -> None:
    allowed = endpoint.removeprefix("http://")
    with serving(tmp_path, "--workers", "1", allowed_endpoints=allowed, dialects="adaptive") as service:
        graders = Adaptive(service.url, service.key).graders
        told = graders.test_external_endpoint(endpoint)
        assert (told.name, told.version, told.description) == ("lengths", "7", "how long it is")
        assert "begins with http://" in graders.test_external_endpoint("ftp://x").error


def test_a_dialect_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1", dialects="reward") as service:
        assert httpx.post(f"{service.url}/api/graphql", json={"query": "{ me { id } }"}).status_code == 404
