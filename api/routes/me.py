"""Who asks."""

from fastapi import APIRouter

from api.access.auth import Caller
from gradebox.schemas import ApiKey

router = APIRouter(prefix="/v1/me", tags=["keys"])


@router.get("")
def me(caller: Caller) -> ApiKey:
    """The API key of this request, without its secret: its projects, and what it may do there."""
    return caller.model_copy(update={"secret": None})
