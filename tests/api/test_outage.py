import asyncio
from pathlib import Path

import httpx
import pytest

from api.app import create_app
from api.services import Services
from sandbox.pool import Pool
from storage.connection import connect
from storage.spool import Spool
from storage.store import Store
from tests.api.conftest import PROJECT, problem

pytestmark = pytest.mark.sandbox


@pytest.fixture
def services(pool: Pool, tmp_path: Path) -> Services:
    """Without a Redis."""
    return Services(Store(connect(f"unix://{tmp_path}/nothing.sock"), Spool(f"file://{tmp_path}/spool")), pool)


def get(services: Services, path: str) -> httpx.Response:
    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers={"Authorization": "Bearer gbx_1_2"})

    return asyncio.run(get())


def test_without_redis_one_is_asked_to_come_again(services: Services) -> None:
    response = get(services, f"{PROJECT}/graders")
    detail = problem(response, 503, "unavailable")
    assert response.headers["retry-after"] == "1"
    assert "sock" not in detail


def test_without_redis_the_service_lives_and_is_not_ready(services: Services) -> None:
    assert get(services, "/healthz").status_code == 200
    response = get(services, "/readyz")
    assert (response.status_code, response.json()) == (503, {"status": "down"})


def test_a_fault_says_nothing_of_what_is_inside(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret name")

    monkeypatch.setattr(services.store.api_keys, "find", broken)

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(services), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(f"{PROJECT}/graders", headers={"Authorization": "Bearer gbx_1_2"})

    response = asyncio.run(get())
    assert "secret" not in problem(response, 500, "internal")
