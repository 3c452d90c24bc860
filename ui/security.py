"""Response headers of all pages below /ui, and the check of a request's origin."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError
from ui.templates import root_path

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_SAFE = ("GET", "HEAD")


class Guarded:
    """ASGI middleware that sets security headers: pages run no foreign scripts, and other sites cannot frame them. It
    also sets the root path of the pages.
    """

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        root_path.set(self._root)
        await self._app(scope, receive, guarded)


def check_origin(method: str, headers: Headers) -> None:
    """Raise ProblemError if another site's page sends a request that may change something."""
    if method in _SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None:  # an old browser, or access without TLS by a name other than localhost
        is_own = origin is not None and urlsplit(origin).netloc == headers.get("host")
    else:
        is_own = site == "same-origin"
    if not is_own:
        raise ProblemError(
            403, "forbidden", "this request comes from a page of another site: open the page here and try again"
        )
