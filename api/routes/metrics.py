"""`GET /metrics`: the metrics of this process, and those of the whole service from Redis."""

from ipaddress import ip_address

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.datastructures import URL

from api.access.auth import Keyed, identify, secret_of
from api.http import openapi
from api.http.problems import ProblemError
from api.services import Served
from storage.access.api_keys import EVERY_PROJECT

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

router = APIRouter(tags=["health"])


class _Permitted(Keyed):
    async def __call__(self, request: Request, services: Served) -> None:
        allowed, secret = services.settings.metrics, secret_of(request)
        if allowed == "all" or (allowed == "local" and secret is None and is_local(request)):
            return
        key = await identify(request, services, secret)
        if EVERY_PROJECT not in key.projects:
            raise ProblemError(403, "forbidden", 'metrics are of all projects: use an API key for every project ("*")')


def is_local(request: Request) -> bool:
    """Whether the client is on this machine, without a proxy, and the Host is local, which excludes DNS rebinding."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    host = URL(scope=request.scope).hostname or ""
    return _is_loopback(request.client.host) and (host == "localhost" or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@router.get(
    "/metrics",
    openapi_extra=openapi.WITHOUT_KEY_TOO,
    response_class=PlainTextResponse,
    dependencies=[Depends(_Permitted())],
)
def metrics(services: Served) -> Response:
    """Get the metrics in Prometheus' text format. By default, requests from this machine need no API key."""
    return Response(services.exposition.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
