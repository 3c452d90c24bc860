"""Tests of the trial of an endpoint, through real sockets."""

import asyncio
import gc
from collections.abc import Mapping
from time import process_time

import pytest

from examples.model_server import ModelServer, Script
from gradebox.schemas import EndpointTrial, ModelFault
from models.servers.endpoint_client import EndpointClient
from models.servers.pinned_http import HttpAnswer
from models.servers.server_trials import of_endpoint
from models.settings import ModelSettings
from tests.models.registered import endpoint_at

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=64, model_connect_s=2)
SECRET = "secret-of-an-endpoint-0123456789"


def tried(script: Script, path: str = "") -> EndpointTrial:
    with ModelServer(script) as server:
        return asyncio.run(of_endpoint(endpoint_at(f"{server.base_url}{path}", SECRET), HERE))


def test_one_that_answers() -> None:
    found = tried(Script(reward=-0.5, api_key=SECRET))
    assert (found.passed, found.reward, found.error) == (True, -0.5, None)


@pytest.mark.parametrize(
    ("script", "kind", "retryable", "said"),
    [
        (Script(behave="status", status=404), "unknown", False, "check the URL"),
        (Script(behave="status", status=403), "refused", False, "check the API key and the headers of the endpoint"),
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


def test_headers_are_sent_once_each_and_in_place_of_the_usual_ones() -> None:
    headers = {"x-api-key": SECRET, "user-agent": "trainer 2", "ACCEPT": "*/*", "Cookie": 'a="b c"'}
    with ModelServer(Script(api_key=SECRET)) as server:
        asyncio.run(of_endpoint(endpoint_at(server.base_url, "", headers), HERE))
        sent = server.headers[0]
    others = ("accept-encoding", "content-length", "content-type", "host")
    assert sorted(map(str.lower, sent)) == sorted(map(str.lower, (*headers, *others)))
    assert {name: sent[name] for name in headers} == headers


@pytest.mark.parametrize("header", [{"X-API-Key": SECRET}, {"Authorization": f"Token {SECRET}"}])
def test_a_header_that_a_server_repeats_is_not_told(header: dict[str, str]) -> None:
    with ModelServer(Script(behave="echo-key")) as server:
        found = asyncio.run(of_endpoint(endpoint_at(server.base_url, "", header), HERE))
    assert found.error is not None
    assert "you sent [API key]" in found.error.message


def test_the_credentials_of_a_header_are_not_told_without_their_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    error = answered(f'{{"error": "no user has {SECRET}"}}'.encode(), monkeypatch, {"Authorization": f"Token {SECRET}"})
    assert "no user has [API key]" in error.message


def test_a_server_that_is_not_there() -> None:
    found = asyncio.run(of_endpoint(endpoint_at("http://127.0.0.1:9"), HERE))
    assert found.error is not None and (found.error.kind, found.error.retryable) == ("unreachable", True)
    assert "model" not in found.error.message


def answered(body: bytes, monkeypatch: pytest.MonkeyPatch, headers: Mapping[str, str] | None = None) -> ModelFault:
    """The error of a server that answers this."""

    async def post(*_: object) -> HttpAnswer:
        return HttpAnswer(200, {}, body)

    monkeypatch.setattr(EndpointClient, "post", post)
    error = asyncio.run(of_endpoint(endpoint_at("http://127.0.0.1:9", "", headers), HERE)).error
    assert error is not None and "model" not in error.message
    return error


@pytest.mark.parametrize(
    "body",
    [
        b'{"reward": NaN, "metadata": {}}',
        b'{"reward": null}',
        b"[1]",
        b'{"reward": 1e999, "metadata":{}}',
        b'{"reward": 0, "reward": 1, "metadata": {}}',
        b'{"reward": 1, "metadata": {"reason": "good", "reason": "bad"}}',
        b'{"reward": 1, "metadata": {"a": [' + b"[]," * 300_000 + b"1]}}",
        b'{"reward": 1, "metadata": {}, "a": [' + b"{}," * 300_000 + b"1]}",
        b'{"metadata": {}, ' + b'"reward": 1e308, ' * 60_000 + b'"reward": 1}',
    ],
    ids=["nan", "null", "list", "infinite", "twice", "reason twice", "large", "large beside it", "slow numbers"],
)
def test_what_is_no_reward(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what earlier tests have left is not collected in the time that is measured
    began = process_time()
    error = answered(body, monkeypatch)
    assert process_time() - began < 0.2
    assert error.kind == "invalid_reply"
    said = "not read: there are more than 1000 numbers" if b"e308" in body else "has 9000"
    assert ("not as a reward server" if len(body) < 1000 else said) in error.message


@pytest.mark.parametrize(
    ("body", "kind", "retryable"),
    [
        (b'{"reward": 0.5', "unreachable", True),
        (b'{"error": {"code": 503, "message": "no GPU"}}', "unreachable", True),
        (b'{"error": "no GPU"}', "refused", False),
        (b'{"reward": 0.0, "metadata": {}, "error": "no GPU"}', "refused", False),
        (b'{"reward": 0.0, "metadata": {}, "error": {"code": 503}}', "unreachable", True),
        (b'<html><body>{"reward": 0.5', "invalid_reply", False),
    ],
)
def test_an_answer_that_is_cut_off_or_an_error_is_one(
    body: bytes, kind: str, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = answered(body, monkeypatch)
    assert (error.kind, error.retryable) == (kind, retryable), error
    assert body.decode()[:20] in error.message or kind == "invalid_reply"
