"""`/openapi.json`, and `/docs`, which displays it with Swagger UI from files that are installed with the service."""

import json
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from api.http.problems import ProblemError

# Users type API keys into this page. It loads nothing from other hosts, and sends nothing to them.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_A_DAY = {"Cache-Control": "public, max-age=86400"}
_SWAGGER_UI = Path(str(files("fastapi_offline"))) / "static"
_FILES = {
    "favicon.png": _SWAGGER_UI / "favicon.png",
    "start.js": Path(__file__).with_name("docs.js"),
    "swagger-ui.css": _SWAGGER_UI / "swagger-ui.css",
    "swagger-ui-bundle.js": _SWAGGER_UI / "swagger-ui-bundle.js",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gradebox</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def document(request: Request) -> Response:
    """The OpenAPI document. It is encoded only once, because requests for it need no key."""
    kept: bytes | None = getattr(request.app.state, "openapi", None)
    if kept is None:
        kept = request.app.state.openapi = json.dumps(request.app.openapi(), ensure_ascii=False).encode()
    return Response(kept, media_type="application/json")


@router.get("/docs")
async def page() -> Response:
    """The HTML page."""
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/docs/{name}")
async def part(name: str) -> Response:
    """A file of the page. It is sent in chunks while it is read, so that a slow client holds only one of them in
    memory.
    """
    if name not in _FILES:
        raise ProblemError(404, "not-found", "the page at /docs has no such file")
    return FileResponse(_FILES[name], headers=_HEADERS | _A_DAY)
