"""Counts, times and logs each request."""

import time
from asyncio import get_running_loop
from collections import Counter as Counts

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from api.http.request_id import request_id
from runtime import tracing

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
NO_ROUTE = "none"
REFUSALS_S = 60.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)

_log = structlog.get_logger(__name__)


class Requests:
    """The metrics of requests, labelled by route template: labels contain no text that tenants put into paths."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["method", "route"]
        self.count = Counter("gradebox_http_requests", "Requests answered.", [*labels, "status"], registry=registry)
        self.seconds = Histogram(
            "gradebox_http_request_seconds",
            "Time from the headers of a request to the last byte of its answer.",
            labels,
            buckets=SECONDS,
            registry=registry,
        )
        self.refusals = Refusals()
        self.open = Gauge("gradebox_http_requests_open", "Requests in progress.", registry=registry)


class Refusals:
    """Sums up refused requests without an identified key, so that their senders cannot fill the log."""

    def __init__(self) -> None:
        self._counts = Counts[str]()

    def note(self, status: int) -> None:
        """Counts a refusal. The first one starts a timer, which logs all that were counted by then."""
        if not self._counts:
            get_running_loop().call_later(REFUSALS_S, self.tell)
        self._counts[str(status)] += 1

    @property
    def count(self) -> int:
        """The number of refusals since the last log line."""
        return self._counts.total()

    def tell(self) -> None:
        """Logs the number of refusals since the last log line, by status."""
        if self._counts:
            _log.info("requests refused, no key identified", statuses=dict(self._counts))
            self._counts.clear()


class Observed:
    """ASGI middleware that counts, times and logs requests. It needs their ids."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # the status sent for an unhandled exception
        began = time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with (
            bound_contextvars(request=request_id(scope)),
            self._requests.open.track_inprogress(),
            tracing.span("request", "server", Headers(scope=scope).get("traceparent", "")) as span,
        ):
            try:
                await self._app(scope, receive, noting)
            finally:
                method = scope["method"] if scope["method"] in METHODS else "other"
                route = route_template(scope)
                self._note(method, route, status, time.perf_counter() - began, "key" in scope["state"])
                if span is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                    span.set_attribute("http.response.status_code", status)
                    span.set_attribute("gradebox.request", request_id(scope))

    def _note(self, method: str, route: str, status: int, seconds: float, has_key: bool) -> None:
        self._requests.count.labels(method, route, status).inc()
        self._requests.seconds.labels(method, route).observe(seconds)
        if status >= 400 and not has_key:
            self._requests.refusals.note(status)
            return
        # Clients that wait for a batch poll several times a second, which is not worth a log line.
        log = _log.debug if method == "GET" and status < 400 else _log.info
        log("request", method=method, route=route, status=status, duration_ms=round(seconds * 1000, 2))


def route_template(scope: Scope) -> str:
    """The path of the route with its parameters' names."""
    path = getattr(scope.get("route"), "path", None)
    return NO_ROUTE if path is None else f"{scope.get('root_path', '')}{path}"  # pages are an app mounted below a path
