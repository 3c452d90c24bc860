"""Servers as a project registers them, with the keys to ask them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from storage.models.models import RegisteredModel
from storage.models.registry import Access, RegisteredServer


def model_at(url: str, api_key: str, **more: Any) -> Access[RegisteredModel]:
    """The model `m` at this URL."""
    now = datetime.now(UTC)
    members = {"key": "judge", "url": url, "model": "m", "timeout_s": 5, "created_at": now, "updated_at": now, **more}
    return Access(RegisteredModel(**members), api_key)


def endpoint_at(url: str, api_key: str = "", headers: Mapping[str, str] | None = None) -> Access[RegisteredServer]:
    """An endpoint at this URL."""
    now = datetime.now(UTC)
    server = RegisteredServer(key="reward", url=url, timeout_s=2, created_at=now, updated_at=now)
    return Access(server, api_key, headers or {})
