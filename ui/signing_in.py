"""Signing in with an API key or a link, and signing out."""

from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.access.auth import address_of
from api.services import Services
from gradebox.schemas import ApiKey
from storage.access.sessions import SESSION_S
from ui.forms import read_form
from ui.security import check_origin
from ui.templates import page, rendered, root_path, ui
from ui.visits import COOKIE

HOME = "/ui/"
_FORM_BYTES = 16 * 1024  # small, because the senders are not authenticated
_WRONG = "The API key is unknown or revoked. Check that it was copied completely, or ask for a new one."
_USED = "This link was already used, is older than a day, or its API key was revoked. Create a new one: gradebox pages."


async def form(request: Request) -> Response:
    """Show the sign-in form."""
    return page("sign_in.html", fault="", next=_own_path(request.query_params.get("next", "")), is_dialog=False)


async def sign_in(request: Request) -> Response:
    """Start a session for a caller who sends a valid API key. Invalid keys are counted like those of other requests."""
    check_origin(request.method, request.headers)
    services: Services = request.app.state.services
    is_dialog = "hx-request" in request.headers
    fields = await read_form(request, _FORM_BYTES)
    goal = _own_path(fields.get("next", ""))
    key = await services.look_up(services.store.api_keys.find, fields.get("key", "").strip())
    if key is None:
        services.failed_keys.count(address_of(request.scope))
        template = "_sign_in.html" if is_dialog else "sign_in.html"
        return page(template, 401, fault=_WRONG, next=goal, is_dialog=is_dialog)
    if is_dialog:
        answer: Response = HTMLResponse("", headers={"HX-Trigger": "signed-in"})
    else:
        answer = RedirectResponse(root_path.get() + goal, 303)
    return await _begin(request, services, key, answer)


async def ask_to_enter(request: Request) -> Response:
    """Start a session for a caller who opens a one-time link.

    Unless the link was opened from the address bar, the caller has to confirm first: otherwise link scanners in
    messaging programs would use it up, and other sites could sign users in.
    """
    token = request.query_params.get("token", "")
    if request.headers.get("sec-fetch-site") == "none":
        return await _enter(request, token)
    return page("enter.html", token=token)


async def enter(request: Request) -> Response:
    """Start the session after confirmation."""
    check_origin(request.method, request.headers)
    return await _enter(request, (await read_form(request, _FORM_BYTES)).get("token", ""))


async def _enter(request: Request, token: str) -> Response:
    services: Services = request.app.state.services
    key_id = await services.look_up(services.store.sessions.take_link, token)
    key = await services.look_up(services.store.api_keys.by_id, key_id) if key_id else None
    if key is None:
        services.failed_keys.count(address_of(request.scope))
        return page("sign_in.html", 401, fault=_USED, next=HOME, is_dialog=False)
    return await _begin(request, services, key, RedirectResponse(f"{ui()}/", 303))


async def sign_out(request: Request) -> Response:
    """End the session."""
    check_origin(request.method, request.headers)
    services: Services = request.app.state.services
    if session := request.cookies.get(COOKIE):
        await services.look_up(services.store.sessions.end, session)
    answer = RedirectResponse(f"{ui()}/sign-in", 303)
    answer.delete_cookie(COOKIE, path=ui())
    return answer


def signed_out(request: Request) -> Response:
    """The response without a session: the form, or within an open page a dialog, so that the page stays."""
    if "hx-request" in request.headers:
        dialog = rendered("_sign_in.html", fault="", next=HOME, is_dialog=True)
        return HTMLResponse(dialog, 401, {"HX-Retarget": "dialog", "HX-Reswap": "innerHTML"})
    # The request was not executed. Its path may not be a page, so after signing in the page that sent it is shown.
    is_page = request.method == "GET"
    seen = urlsplit(str(request.url) if is_page else request.headers.get("referer", ""))
    path = seen.path if is_page else seen.path.removeprefix(root_path.get())
    goal = path + (f"?{seen.query}" if seen.query else "")
    return RedirectResponse(f"{ui()}/sign-in?{urlencode({'next': goal})}", 303)


async def _begin(request: Request, services: Services, key: ApiKey, answer: Response) -> Response:
    if before := request.cookies.get(COOKIE):
        await services.look_up(services.store.sessions.end, before)
    session = await services.look_up(services.store.sessions.begin, key.id)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, session, max_age=SESSION_S, path=ui(), secure=is_secure, httponly=True, samesite="lax")
    return answer


def _own_path(goal: str) -> str:
    """The path if it is a page below /ui; else the home page."""
    is_own = goal.startswith(HOME) and "\\" not in goal and not any(ord(letter) < 33 for letter in goal)
    return goal if is_own else HOME
