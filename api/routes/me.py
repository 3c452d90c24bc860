"""The API key of the caller."""

from fastapi import APIRouter

from api.access.auth import Caller
from api.services import Served
from gradebox.schemas import ApiKey, SignInLink

router = APIRouter(prefix="/v1/me", tags=["keys"])


@router.get("")
def me(caller: Caller) -> ApiKey:
    """Get the API key of this request, without its secret: its projects and its role."""
    return caller.model_copy(update={"secret": None})


@router.post("/sign-in", status_code=201)
def sign_in(services: Served, caller: Caller) -> SignInLink:
    """Create a path that signs a browser in to the pages as the API key of this request. Valid once, within a day."""
    return SignInLink(path=f"/ui/enter?token={services.store.sessions.make_link(caller.id)}")
