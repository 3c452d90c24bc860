"""Tests that TLS to a model checks the certificate against the name, though the connection goes to an address."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from werkzeug.serving import make_ssl_devcert

from examples.model_server import ModelServer
from models.errors import AskFailed
from models.servers.client import ModelClient
from models.settings import ModelSettings
from tests.models.registered import model_at

NAME = "models.example"
HERE = ModelSettings(model_hosts=("*",), model_private="on", model_connect_s=2)


@contextmanager
def serving(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[str | None]]]:
    """Runs a server with a trusted certificate for this name. Yields its port and the names that clients requested."""
    certificate, key = make_ssl_devcert(str(folder / name), cn=name)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, sni, _context: asked.append(sni)
    server = ModelServer()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with server:
        yield server.server_address[1], asked


def chat(port: int) -> str:
    async def here(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def ask() -> str:
        to = model_at(f"https://{NAME}:{port}/v1", "sk-0123456789abcdef")
        async with ModelClient(to, HERE, here) as client:
            return (await client.chat([{"role": "user", "content": "?"}])).text

    return asyncio.run(ask())


def test_the_name_is_asked_for_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, NAME, monkeypatch) as (port, asked):
        assert chat(port)
    assert asked == [NAME]


def test_a_certificate_of_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, "others.example", monkeypatch) as (port, _), pytest.raises(AskFailed) as refused:
        chat(port)
    assert refused.value.fault.kind == "unreachable"
    assert "certificate" in str(refused.value).lower()


def test_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, NAME, monkeypatch) as (port, asked):
        (tmp_path / "other").mkdir()
        monkeypatch.setenv("SSL_CERT_FILE", make_ssl_devcert(str(tmp_path / "other" / NAME), cn=NAME)[0])
        with pytest.raises(AskFailed, match=r"(?i)certificate"):
            chat(port)
    assert asked == [NAME]
