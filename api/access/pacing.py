"""Lets strangers' requests wait for their turn, or go, before they cost anything."""

import json
from asyncio import sleep
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.strangers import LONGEST_S, WAITS
from api.services import Services


class Paced:
    """An ASGI application that strangers ask so often and no more."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, or one websocket."""
        if scope["type"] not in ("http", "websocket") or self._services.strangers.is_good(_authorization(scope)):
            await self._app(scope, receive, send)
            return
        wait_s = self._services.strangers.turn(scope["client"][0] if scope["client"] else "local")
        if wait_s != 0:
            scope["state"][WAITS] = True
            await sleep(LONGEST_S if wait_s is None else wait_s)
        if wait_s is None:
            await self._refuse(scope, send)
        else:
            await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        self._services.requests.refusals.note(HTTPStatus.TOO_MANY_REQUESTS)
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(_REFUSAL)),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": f"{kind}.start", "status": 429, "headers": headers})
        await send({"type": f"{kind}.body", "body": _REFUSAL})


def _authorization(scope: Scope) -> bytes:
    found = (value for name, value in scope["headers"] if name == b"authorization")
    return next(found, b"")


_REFUSAL = json.dumps(
    {
        "type": "urn:gradebox:problem:too-many-requests",
        "title": HTTPStatus.TOO_MANY_REQUESTS.phrase,
        "status": 429,
        "detail": "too many requests without a good API key come from your address: send a key, or fewer requests",
        "request_id": "",
    }
).encode()
