"""Stand-ins for replies if no server is asked: the smallest replies that fit."""

import math
from typing import Any

import msgspec

from models.parse_ask import EndpointRequest, ModelRequest

TEXT = "stand-in"
_MOST_VALUES = 10_000  # per reply


def reply(request: ModelRequest | EndpointRequest) -> dict[str, Any]:
    """Return the smallest reply to a request."""
    if isinstance(request, EndpointRequest):
        return {"reward": 0.0, "metadata": {}}
    text = TEXT if request.schema is None else msgspec.json.encode(smallest(request.schema)).decode()
    return {"text": text, "finish_reason": "stop", "usage": {"input_tokens": 0, "output_tokens": 0}}


def smallest(schema: Any) -> Any:
    """Return the smallest value that fits a JSON Schema with the keywords that `gradebox.asks.schema` supports. If a
    schema requires very many values, fewer are made, and the result does not fit.
    """
    return _Smallest().of(schema)


class _Smallest:
    """Makes one value. It counts what it makes, because nested lists multiply."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, schema: Any) -> Any:
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0:
            return None
        for keyword in ("enum", "anyOf"):
            options = schema.get(keyword)
            if isinstance(options, list) and options:
                return options[0] if keyword == "enum" else self.of(options[0])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return [self.of(schema.get("items", {})) for _ in range(self._count(schema.get("minItems")))]
        if kind in ("integer", "number"):
            return _number(schema, kind == "integer")
        if kind == "string":
            return "x" * self._count(schema.get("minLength"))
        return {"boolean": False}.get(str(kind))

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, dict) else {}
        names = required if isinstance(required, list) else []
        return {name: self.of(properties.get(name, {})) for name in names if isinstance(name, str)}

    def _count(self, least: Any) -> int:
        """The minimum number of characters or items, capped."""
        return min(max(least, 0), 1000, max(self._left, 0)) if isinstance(least, int) else 0


def _number(schema: dict[str, Any], is_whole: bool) -> float | int:
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float) and least > 0:
        return math.ceil(least) if is_whole and least % 1 else least
    if isinstance(most, int | float) and most < 0:
        return math.floor(most) if is_whole and most % 1 else most
    return 0
