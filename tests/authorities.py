"""Reads the certificate authorities once: it takes 25 ms for each HTTP client, and no test needs other authorities."""

import ssl
from typing import Any

import certifi

_AUTHORITIES = ssl.create_default_context(cafile=certifi.where())
_create_default_context = ssl.create_default_context


def _default_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
    if not arguments and options == {"cafile": certifi.where()}:
        return _AUTHORITIES
    return _create_default_context(*arguments, **options)


ssl.create_default_context = _default_context
