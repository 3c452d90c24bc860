"""Certificate authorities, which HTTP clients of all tests share. Importing this module makes them do so."""

import os
import ssl
from functools import cache
from typing import Any

import certifi

_create_default_context = ssl.create_default_context


@cache
def _authorities(file: str) -> ssl.SSLContext:
    """Reading them takes 25 ms for each HTTP client, and no test connects to another machine."""
    return _create_default_context(cafile=file)


def _default_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
    file = os.environ.get("SSL_CERT_FILE") or certifi.where()  # as httpx chooses
    if not arguments and options == {"cafile": file}:
        return _authorities(file)
    return _create_default_context(*arguments, **options)


ssl.create_default_context = _default_context
