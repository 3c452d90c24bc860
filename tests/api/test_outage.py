import asyncio
import re
from pathlib import Path

import httpx
import pytest

from api.app import create_app
from api.services import Services
from sandbox.pool.pool import Pool
from tests.api.conftest import PROJECT, problem
from tests.api.in_process import asked, without_redis

pytestmark = pytest.mark.sandbox
BEARER = f"Bearer gbx_0123456789ab_{'x' * 43}"  # has the form of an API key


@pytest.fixture
def services(pool: Pool, tmp_path: Path) -> Services:
    return without_redis(pool, tmp_path)


def get(services: Services, path: str) -> httpx.Response:
    return asked(services, path, Authorization=BEARER)


def test_without_redis_the_service_lives_and_is_not_ready(services: Services) -> None:
    assert get(services, "/healthz").status_code == 200
    response = get(services, "/readyz")
    assert (response.status_code, response.json()) == (503, {"status": "down"})


def test_a_fault_says_nothing_of_what_is_inside(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret name")

    monkeypatch.setattr(services.store.api_keys, "find_in", broken)

    response = get(services, f"{PROJECT}/graders")
    assert "secret" not in problem(response, 500, "internal")


def test_without_redis_every_route_asks_to_come_again(services: Services) -> None:
    app = create_app(services)
    routes = [(method, path) for path, methods in app.openapi()["paths"].items() for method in methods]
    without_redis = {"/healthz", "/readyz", "/metrics"}
    headers = {"Authorization": BEARER, "Content-Type": "application/json"}

    async def ask() -> dict[tuple[str, str], httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return {
                (method, path): await client.request(
                    method, re.sub(r"\{\w+\}", "a", path), headers=headers, content="{}"
                )
                for method, path in routes
                if path not in without_redis
            }

    answers = asyncio.run(ask())
    assert len(answers) > 20
    problem(answers["get", "/v1/projects/{project}/graders"], 503, "unavailable")
    assert {route: answer.status_code for route, answer in answers.items() if answer.status_code != 503} == {}
    assert {route for route, answer in answers.items() if "sock" in answer.text} == set()
    assert {route for route, answer in answers.items() if answer.headers.get("retry-after") != "1"} == set()
