"""Describes bodies that are read by hand, so that /docs shows them like the others."""

from typing import Any

import msgspec


def body(kind: type[msgspec.Struct], *, also: dict[str, Any] | None = None) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes this struct as JSON, or one of the other media types."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/{name}")
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": components[kind.__name__]}, **(also or {})},
        }
    }


SOURCE_FILE = {"text/x-python": {"schema": {"type": "string"}}}
FORM = {
    "multipart/form-data": {
        "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
    }
}
JSON_LINES = {"application/x-ndjson": {"schema": {"type": "string", "description": "a thread a line"}}}
