"""Tests of the connections that processes and event loops have of their own."""

import asyncio
import gc
import os
import weakref
from typing import Any

import httpx
import pytest

from gradebox import AsyncClient
from gradebox.client.connections import ClientConnections
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
