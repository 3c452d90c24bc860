"""The API key of the caller."""

from api.access.auth import Caller
from api.http.routers import service_router
from api.services import Served
from gradebox.schemas import ApiKey, SignInLink

router = service_router("/v1/me", "keys")


@router.get("")
def me(caller: Caller) -> ApiKey:
    """Get the API key of this request, without its secret: its projects and its role."""
    return caller.model_copy(update={"secret": None})


@router.post("/sign-in", status_code=201)
def sign_in(services: Served, caller: Caller) -> SignInLink:
    """Create a path that signs a browser in to the pages as the API key of this request. Valid once, within a day."""
    return SignInLink(path=f"/ui/enter?token={services.store.sessions.make_link(caller.id)}")
