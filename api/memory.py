"""How much of bodies is in memory at once, for all requests together."""

from starlette.types import ASGIApp, Receive, Scope, Send

from api.problems import RETRY, ProblemError

_HELD = "body_bytes"


class BodyMemory:
    """Counts whole bodies from when they are read to when their request is answered. Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Notes so many more bytes of a request. Raises ProblemError where they are too many with all others."""
        if self.held + size > self._most:
            detail = f"requests that are being worked on hold {self.held >> 20} MiB already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, RETRY)
        self.held += size
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) + size

    def release(self, scope: Scope) -> None:
        """Forgets what a request held."""
        self.held -= scope.get("state", {}).pop(_HELD, 0)


class ReleaseBodies:
    """Lets go of what requests held when they are answered."""

    def __init__(self, app: ASGIApp, memory: BodyMemory) -> None:
        self._app = app
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        try:
            await self._app(scope, receive, send)
        finally:
            self._memory.release(scope)
