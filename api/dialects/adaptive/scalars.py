"""The scalars of adaptive-sdk's schema that are not built into GraphQL."""

from datetime import datetime
from typing import Any, NewType

import strawberry
from strawberry.schema.config import StrawberryConfig

IdOrKey = NewType("IdOrKey", str)
Timestamp = NewType("Timestamp", int)


def _ref(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("an id or a key is a string: put it in quotes")
    return value


CONFIG = StrawberryConfig(
    scalar_map={
        IdOrKey: strawberry.scalar(name="IdOrKey", description="an id or a key", parse_value=_ref),
        Timestamp: strawberry.scalar(name="Timestamp", description="milliseconds since 1970", serialize=int),
    }
)


def timestamp(time: datetime) -> Timestamp:
    """Converts a time to the SDK's unit."""
    return Timestamp(int(time.timestamp() * 1000))
