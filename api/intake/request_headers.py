"""Headers that a project has the service send to its reward server."""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from api.http.problems import invalid

Headers = Annotated[
    dict[str, str],
    msgspec.Meta(
        max_length=16,
        description="names of up to 64 characters, and values of up to 4,096 visible ASCII characters, with spaces "
        "between them; 8 KiB together",
    ),
]
_BYTES = 8192
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?")
# They say how the request is sent: another one would end before its body does, or be read as something else.
_OF_THE_SERVICE = re.compile(
    r"host|connection|te|trailer|transfer-encoding|upgrade|keep-alive|expect|accept-encoding|content-.*|proxy-.*",
    re.IGNORECASE,
)


def check(headers: Mapping[str, str]) -> None:
    """Raises ProblemError if a header cannot be sent. It quotes no value, and no name that may be one."""
    seen: set[str] = set()
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise invalid("`headers` has a name that is none: write 1 to 64 letters, digits and -, as in X-API-Key")
        if _OF_THE_SERVICE.fullmatch(name):
            raise invalid(f"`headers` has {name}, which the service sets itself to send JSON: leave it out")
        if name.lower() in seen:
            raise invalid(f"`headers` has {name} twice, in upper and lower case: give it once")
        seen.add(name.lower())
        if not _VALUE.fullmatch(value):
            raise invalid(
                f"the value of {name} in `headers` cannot be sent: write 1 to 4,096 visible ASCII characters, with "
                "spaces only between them"
            )
    if (size := sum(len(name) + len(value) for name, value in headers.items())) > _BYTES:
        raise invalid(f"`headers` have {size} bytes, and may have {_BYTES} together: give fewer or shorter ones")
