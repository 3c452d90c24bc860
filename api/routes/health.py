"""Health of the service. Callers without a key only learn whether it is up."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from redis.exceptions import RedisError

from api.access.auth import identify, secret_of
from api.http.problems import ProblemError
from api.routes.metrics import is_local
from api.services import Served, Services
from storage.access.api_keys import EVERY_PROJECT

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Up or down; `starting` while nothing is missing but the models and endpoints of `gradebox serve`. Only requests
    from this machine, and API keys for every project, also get troubles and warnings.
    """

    status: Literal["up", "starting", "down"]
    troubles: list[str] | None = None
    warnings: list[str] | None = None


@router.get("/healthz", response_model_exclude_none=True)
async def healthz() -> Health:
    """Check that this process answers."""
    return Health(status="up")


async def _may_see(request: Request, services: Services) -> bool:
    """Whether the caller may see the details."""
    secret = secret_of(request)
    if secret is None:
        return is_local(request)
    if not services.readiness.redis_answers:  # the look-up of the key would wait for it
        return False
    try:
        return EVERY_PROJECT in (await identify(request, services, secret)).projects
    except (ProblemError, RedisError):  # an invalid key still gets the readiness
        return False


@router.get(
    "/readyz",
    response_model_exclude_none=True,
    responses={503: {"model": Health, "description": "Redis, the spool or sandboxes are away, or it is starting"}},
)
async def readyz(request: Request, services: Served, response: Response) -> Health:
    """Check that this process can work: Redis answers, the spool is writable, and sandboxes are available."""
    troubles = await services.readiness.in_time()
    may_see = await _may_see(request, services)  # after the check, which says whether Redis answers
    warnings = list(services.shortages.known) if may_see else []
    if not troubles and not services.readiness.is_registering:
        return Health(status="up", warnings=warnings or None)
    response.status_code = 503
    if not troubles:
        return Health(status="starting", warnings=warnings or None)
    return Health(status="down", troubles=list(troubles) if may_see else None, warnings=warnings or None)
