"""Delays or refuses requests without a known good API key, before any work is done for them."""

from asyncio import sleep
from random import uniform

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.auth import address_of
from api.access.strangers import WAITS
from api.http.problems import MEDIA_TYPE, RETRY, ProblemError, members_of
from api.services import Services

_LONGEST_S = 1.0  # the longest delay of a request
_DETAIL = "too many requests without a valid API key come from your address: send a key, or fewer requests"
_REFUSAL = JSONResponse(
    members_of(ProblemError(429, "too-many-requests", _DETAIL)), 429, {**RETRY, "Connection": "close"}, MEDIA_TYPE
)


class Paced:
    """An ASGI middleware that limits requests without a known good API key."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, or one websocket."""
        is_asked = scope["type"] in ("http", "websocket")
        if not is_asked or self._is_known(scope) or await self._may_go(scope):
            await self._app(scope, receive, send)
        else:
            self._services.requests.refusals.note(_REFUSAL.status_code)
            await _REFUSAL(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        strangers = self._services.strangers
        return strangers.is_good(_authorization(scope)) or strangers.is_good_address(scope["path"], address_of(scope))

    async def _may_go(self, scope: Scope) -> bool:
        """Whether the request gets a turn within a second.

        It retries once, after a random delay. In a queue, a flood of clients that each send the next request on
        receiving a response would take every place, because a place becomes free exactly when a response is sent.
        """
        address = address_of(scope)
        if self._services.strangers.take_turn(address):
            return True
        scope["state"][WAITS] = True
        waits_s = uniform(0, _LONGEST_S)  # noqa: S311  # no secret
        await sleep(waits_s)
        if self._services.strangers.take_turn(address):
            return True
        await sleep(_LONGEST_S - waits_s)
        return False


def _authorization(scope: Scope) -> bytes:
    found = (value for name, value in scope["headers"] if name == b"authorization")
    return next(found, b"")
