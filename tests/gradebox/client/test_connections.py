"""Tests of the connections that processes and event loops have of their own."""

import asyncio
import gc
import os
import weakref
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gradebox import AsyncClient
from gradebox.client.connections import AsyncClientConnections, ClientConnections
from gradebox.client.rules import Rules
from tests.gradebox.conftest import Service


def test_no_thread_of_a_forked_process_has_the_connections_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = ClientConnections(Rules("http://127.0.0.1:8000", "k", 5.0))
    of_parent, of_others, connect = connections.http, list[httpx.Client](), httpx.Client

    def connecting(**options: Any) -> httpx.Client:
        monkeypatch.setattr(httpx, "Client", connect)
        of_others.append(connections.http)  # as another thread does meanwhile
        return connect(**options)

    monkeypatch.setattr(httpx, "Client", connecting)
    monkeypatch.setattr(os, "getpid", lambda: 0)  # as after a fork
    of_this_thread = connections.http
    assert of_others and of_parent not in (of_this_thread, *of_others)


@pytest.mark.service
def test_connections_end_with_their_event_loop(service: Service) -> None:
    client, loops = AsyncClient(service.url, service.key), list["weakref.ref[Any]"]()

    async def ask() -> None:
        await client.graders.list()
        loops.append(weakref.ref(asyncio.get_running_loop()))

    for _ in range(3):
        asyncio.run(ask())
    gc.collect()
    assert [loop() is None for loop in loops] == [True, True, False]


class _Body(httpx.AsyncByteStream):
    """The body of an answer, which takes a moment to close, as the streams of httpcore do."""

    def __init__(self) -> None:
        self.closing, self.is_closed = asyncio.Event(), False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"

    async def aclose(self) -> None:
        self.closing.set()
        await asyncio.sleep(0)
        self.is_closed = True


def test_an_answer_is_closed_whole_if_its_reader_is_cancelled_meanwhile() -> None:
    async def run() -> bool:
        body = _Body()
        rules = Rules("http://127.0.0.1:8000", "k", 5.0)
        connections = AsyncClientConnections(rules, httpx.MockTransport(lambda _: httpx.Response(200, stream=body)))
        reader = asyncio.create_task(connections.http.get("/"))
        await body.closing.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await connections.close()
        return body.is_closed

    assert asyncio.run(run())


def test_a_reader_that_stops_and_a_task_that_is_cancelled_keep_the_connections() -> None:
    rules = Rules("http://127.0.0.1:8000", "k", 5.0)
    connections = ClientConnections(rules)
    before = connections.http
    connections.renew_after(GeneratorExit())
    assert connections.http is before

    async def run() -> None:
        connections = AsyncClientConnections(rules)
        before = connections.http
        for error in (GeneratorExit(), asyncio.CancelledError()):
            connections.renew_after(error)
        assert connections.http is before
        connections.renew_after(KeyboardInterrupt())
        assert connections.http is not before

    asyncio.run(run())
