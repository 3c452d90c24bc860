"""Who asks."""

from fastapi import APIRouter

from api.access.auth import Caller
from api.services import Served
from gradebox.schemas import ApiKey, SignInLink

router = APIRouter(prefix="/v1/me", tags=["keys"])


@router.get("")
def me(caller: Caller) -> ApiKey:
    """The API key of this request, without its secret: its projects, and what it may do there."""
    return caller.model_copy(update={"secret": None})


@router.post("/sign-in", status_code=201)
def sign_in(services: Served, caller: Caller) -> SignInLink:
    """A path that signs a browser in to the pages as the API key of this request: once, within a day."""
    return SignInLink(path=f"/ui/enter?token={services.store.sessions.make_link(caller.id)}")
