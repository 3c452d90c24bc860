"""Answers a grader's ask of a model by a chat completion."""

from collections.abc import Callable
from typing import Any

from models.errors import AskFailed
from models.parse_ask import ModelRequest
from models.replies.chat_completion import ServerReply
from models.servers.client import ModelClient
from storage.models.models import RegisteredModel

_NAMES_OF_FORMAT = ("response_format", "json_schema", "schema", "structured", "guided")


async def chat(
    client: ModelClient, model: RegisteredModel, request: ModelRequest, note_request: Callable[[], None]
) -> ServerReply:
    """Ask a model for a reply. `note_request` is called before each request but the first.

    A schema is sent unless the server is known to support none. If the server rejects a schema, the ask is repeated
    without it, and this client sends no further schemas unless the server passed the test for them. The grader checks
    replies in any case.

    Raises:
        AskFailed: there is no reply.
    """
    options: dict[str, Any] = {
        name: value for name in ("temperature", "max_tokens", "seed") if (value := getattr(request, name)) is not None
    }
    if request.schema is None or model.structured_output is False or not client.takes_schemas:
        return await client.chat(request.messages, **options)
    try:
        return await client.chat(request.messages, response_format=_format(request.schema), **options)
    except AskFailed as error:
        if error.status not in (400, 422) or not any(name in error.reply.lower() for name in _NAMES_OF_FORMAT):
            raise
    client.takes_schemas = bool(model.structured_output)  # if the server passed the test, it rejects only this schema
    note_request()
    return await client.chat(request.messages, **options)


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": _is_strict(schema), "schema": schema}}


def _has_all(required: Any, members: dict[str, Any]) -> bool:
    """Whether these are the names of all members. Tenants write schemas, so `required` may be any value."""
    names = required if isinstance(required, list) else []
    return all(isinstance(name, str) for name in names) and set(names) == set(members)


def _is_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode supports a schema: each object has exactly the members that it requires."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        members = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        if schema.get("additionalProperties") is not False or not _has_all(required, members):
            return False
        if not all(map(_is_strict, members.values())):
            return False
    return _is_strict(schema.get("items")) and _is_strict(schema.get("anyOf"))
