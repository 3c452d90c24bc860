"""Whether the service is up. No more than that is said without an API key."""

import logging
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel
from redis.exceptions import RedisError

from api.services import Served, Services

router = APIRouter(tags=["health"])

_log = logging.getLogger(__name__)


class Health(BaseModel):
    """Up or down."""

    status: Literal["up", "down"]


@router.get("/healthz")
async def healthz() -> Health:
    """Whether this process answers."""
    return Health(status="up")


@router.get("/readyz", responses={503: {"model": Health, "description": "Redis or the spool is away"}})
def readyz(services: Served, response: Response) -> Health:
    """Whether this process can do its work now: Redis answers, and the spool can be written."""
    if _is_ready(services):
        return Health(status="up")
    response.status_code = 503
    return Health(status="down")


def _is_ready(services: Services) -> bool:
    try:
        services.store.redis.ping()
        services.store.spool.check()
    except (RedisError, OSError) as error:
        _log.warning("not ready: %s", error)
        return False
    return True
