"""Tells messages apart from other JSON, in values that may be either."""

import msgspec

from api.intake import json_cut
from gradebox.thread_forms import ROLES

_BYTES, _MESSAGES = 1_000_000, 1000  # of a list that is looked into
_NULL = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = _NULL
    tool_calls: msgspec.Raw = _NULL
    function_call: msgspec.Raw = _NULL
    refusal: msgspec.Raw = _NULL


def is_message(value: bytes) -> bool:
    """Whether the value is a message: an object with a known role, and with content, tool calls or a refusal."""
    try:
        message = msgspec.json.decode(value, type=_Message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    if message.role not in ROLES:
        return False
    if bytes(message.content) != b"null":
        return bytes(message.content)[:1] in (b'"', b"[")
    in_place_of_content = (message.tool_calls, message.function_call, message.refusal)
    return any(bytes(member)[:1] in (b'"', b"[", b"{") for member in in_place_of_content)


def are_messages(value: bytes) -> bool:
    """Whether the value is a list of messages. An empty list is not; nor is one of more than 1,000 messages or 10^6
    bytes, which is not looked into.
    """
    if len(value) > _BYTES:
        return False
    try:
        elements = json_cut.elements(value, _MESSAGES, _BYTES)
    except (msgspec.MsgspecError, json_cut.TooManyError, UnicodeDecodeError):
        return False
    return bool(elements) and all(map(is_message, elements))
