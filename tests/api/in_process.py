"""Requests to the API without a server, from a client at any address."""

import asyncio
from pathlib import Path

import httpx

from api.app import create_app
from api.services import Services
from sandbox.pool.pool import Pool
from storage.connection import connect
from storage.spool.spool import Spool
from storage.store import Store


def asked(
    services: Services, path: str, client: str = "127.0.0.1", host: str = "test", **headers: str
) -> httpx.Response:
    """The answer to a GET request."""

    async def get() -> httpx.Response:
        app = create_app(services)
        transport = httpx.ASGITransport(app=app, client=(client, 1234), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as asking:
            return await asking.get(path, headers=headers)

    return asyncio.run(get())


def without_redis(pool: Pool, folder: Path) -> Services:
    """Services whose Redis does not run, with a spool in this folder."""
    return Services(Store(connect(f"unix://{folder}/nothing.sock"), Spool(f"file://{folder}/spool")), pool)
