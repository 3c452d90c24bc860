"""What forms send."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from api.http.problems import invalid
from api.intake import bodies
from gradebox.limits import REQUEST_BYTES

_FIELDS = 32


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises ProblemError where the body is none, or too long."""
    if bodies.media_type(request) != "application/x-www-form-urlencoded":
        raise bodies.unsupported(request, "application/x-www-form-urlencoded")
    body = await bodies.read(request, REQUEST_BYTES)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"))
    except (ValueError, UnicodeDecodeError) as error:
        raise invalid(f"the form cannot be read: {error}") from error
