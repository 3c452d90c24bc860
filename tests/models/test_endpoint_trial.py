"""Tests of the trial of an endpoint, through real sockets."""

import asyncio

import pytest

from examples.model_server import ModelServer, Script
from gradebox.schemas import EndpointTrial
from models.endpoint_client import EndpointClient
from models.pinned_http import HttpAnswer
from models.settings import ModelSettings
from models.trials import of_endpoint
from storage.endpoints import EndpointAccess

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=64, model_connect_s=2)
SECRET = "secret-of-an-endpoint-0123456789"


def tried(script: Script, path: str = "") -> EndpointTrial:
    with ModelServer(script) as server:
        return asyncio.run(of_endpoint(EndpointAccess("reward", f"{server.base_url}{path}", 2, 1, SECRET), HERE))


def test_one_that_answers() -> None:
    found = tried(Script(reward=-0.5, api_key=SECRET))
    assert (found.passed, found.reward, found.error) == (True, -0.5, None)


@pytest.mark.parametrize(
    ("script", "kind", "retryable", "said"),
    [
        (Script(behave="status", status=404), "unknown", False, "check the URL"),
        (Script(behave="status", status=403), "refused", False, "check the API key of the endpoint"),
        (Script(behave="status", status=422), "refused", False, "its metadata"),
        (Script(behave="status", status=503), "unreachable", True, "ask again"),
        (Script(behave="status", status=429, retry_after="7"), "rate_limited", True, "ask later"),
    ],
    ids=["404", "403", "422", "503", "429"],
)
def test_what_to_do_is_said_of_the_endpoint(script: Script, kind: str, retryable: bool, said: str) -> None:
    found = tried(script)
    assert (found.passed, found.reward) == (False, None)
    assert found.error is not None
    assert (found.error.kind, found.error.retryable) == (kind, retryable), found
    assert said in found.error.message
    assert "model" not in found.error.message
    assert found.error.retry_after_s == (7 if kind == "rate_limited" else None)


def test_a_server_that_is_not_there() -> None:
    found = asyncio.run(of_endpoint(EndpointAccess("reward", "http://127.0.0.1:9", 2, 1, ""), HERE))
    assert found.error is not None
    assert (found.error.kind, found.error.retryable) == ("unreachable", True)
    assert "model" not in found.error.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"reward": NaN, "metadata": {}}',
        b'{"reward": null}',
        b"[1]",
        b'{"reward": 1e999, "metadata":{}}',
        b'{"reward": 1, "metadata": {"a": [' + b"[]," * 300_000 + b"1]}}",
    ],
    ids=["nan", "null", "list", "infinite", "large"],
)
def test_what_is_no_reward(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def post(*_: object) -> HttpAnswer:
        return HttpAnswer(200, {}, body)

    monkeypatch.setattr(EndpointClient, "post", post)
    error = asyncio.run(of_endpoint(EndpointAccess("reward", "http://127.0.0.1:9", 2, 1, ""), HERE)).error
    assert error is not None and error.kind == "invalid_reply"
    said = "not as a reward server" if len(body) < 1000 else "its metadata has 900010 bytes"
    assert said in error.message and "model" not in error.message
