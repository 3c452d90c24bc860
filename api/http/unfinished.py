"""Requests that end before their answers do: the service stops, or the source of a stream is gone."""

import logging
from asyncio import CancelledError
from contextlib import suppress

from fastapi.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import HANDLED, RETRY, ProblemError, answer, problem_of
from api.http.request_id import request_id

_log = logging.getLogger(__name__)
STOPPING = ProblemError(503, "unavailable", "the service is stopping before this is done: try again in a moment", RETRY)


class Unfinished:
    """Middleware that answers 503 to waiting clients when the service stops. A response that has begun is cut off,
    which the client can detect; no traceback is logged for it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, or one websocket."""
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except CancelledError:
            # The server cancels what is left when its stop timeout is over. Nothing else cancels a whole request.
            if not has_begun:
                with suppress(CancelledError):  # the loop ends: this client does not even read what was sent before
                    await answer(HTTPConnection(scope), STOPPING)(scope, receive, send)
        except RuntimeError as error:
            # Starlette raises this if an error has a handler, but the response has already begun.
            if not has_begun or not isinstance(error.__cause__, HANDLED):
                raise
            reason = problem_of(error.__cause__).name
            _log.warning("request %s was aborted (%s: %r)", request_id(scope), reason, error.__cause__)
