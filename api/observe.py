"""Counts, times and logs each request."""

import time

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from api.request_id import request_id
from worker import tracing

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
NO_ROUTE = "none"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0)

_log = structlog.get_logger(__name__)


class Requests:
    """The metrics of requests, by the template of their route: what tenants wrote into paths is in no label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["method", "route"]
        self.count = Counter("gradebox_http_requests", "Requests answered.", [*labels, "status"], registry=registry)
        self.seconds = Histogram(
            "gradebox_http_request_seconds",
            "From the request's head to the last byte of the answer.",
            labels,
            buckets=SECONDS,
            registry=registry,
        )
        self.open = Gauge("gradebox_http_requests_open", "Requests that are being answered.", registry=registry)


class Observed:
    """An ASGI application whose requests are observed. They have an id already."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # what is answered to an exception that nobody handled
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
                self._note(method, route, status, time.perf_counter() - began)
                if span is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                    span.set_attribute("http.response.status_code", status)
                    span.set_attribute("gradebox.request", request_id(scope))

    def _note(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.count.labels(method, route, status).inc()
        self._requests.seconds.labels(method, route).observe(seconds)
        # Clients that wait for a batch ask several times a second: that is worth no line.
        log = _log.debug if method == "GET" and status < 400 else _log.info
        log("request", method=method, route=route, status=status, duration_ms=round(seconds * 1000, 2))


def route_template(scope: Scope) -> str:
    """The path of the route with its parameters' names. FastAPI keeps that of an included router's route apart."""
    found = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    return str(getattr(found, "path", NO_ROUTE))
