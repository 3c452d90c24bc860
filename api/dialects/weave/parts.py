"""Reads messages whose content is the JSON text of a list of parts, in the form of OpenTelemetry's GenAI conventions.

Weave writes such a content if a message has more than text. The parts are cut out of it without parsing them.
"""

import json
from itertools import groupby

import msgspec

from api.dialects.json_text import is_text, object_of, text_of
from api.intake import json_cut

_NOTHING = msgspec.Raw(b"null")
_MEMBERS = 100  # of a message


class _Part(msgspec.Struct):
    type: str
    content: msgspec.Raw = _NOTHING
    text: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    name: msgspec.Raw = _NOTHING
    arguments: msgspec.Raw = _NOTHING
    response: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING  # the earlier name of `response`

    @property
    def said(self) -> bytes:
        return bytes(self.text if bytes(self.content) == b"null" else self.content)

    @property
    def answer(self) -> bytes:
        return bytes(self.result if bytes(self.response) == b"null" else self.response)

    def is_known(self) -> bool:
        """Whether the part has what its type needs."""
        match self.type:
            case "text" | "reasoning":
                return is_text(self.said)
            case "tool_call":
                return is_text(bytes(self.name))
        return self.type == "tool_call_response"


_parts = msgspec.json.Decoder(list[_Part])


def unpacked(message: bytes) -> list[bytes]:
    """Returns the messages that a message stands for: itself, if its content is not a list of known parts. Otherwise,
    one with its texts and tool calls, and one of role `tool` for each response, in their order.
    """
    if message[:1] != b"{":
        return [message]
    try:
        members = json_cut.members(message, _MEMBERS)
        parts = _read(members.get("content", b""))
    except (json_cut.TooManyError, json_cut.TwiceError, msgspec.MsgspecError, ValueError, RecursionError):
        return [message]
    if not parts:
        return [message]
    found: list[bytes] = []
    for are_responses, group in groupby(parts, lambda part: part.type == "tool_call_response"):
        run = list(group)
        found += map(_tool_turn, run) if are_responses else _turn(members, run)
    return found or [object_of({**members, "content": b'""'})]  # nothing but reasoning


def _read(content: bytes) -> list[_Part]:
    """The parts of a content; none if it is another text."""
    if not is_text(content):
        return []
    text: str = json.loads(content)
    if not text.lstrip().startswith("["):
        return []
    parts = _parts.decode(text.encode())
    return parts if all(part.is_known() for part in parts) else []


def _turn(members: dict[str, bytes], parts: list[_Part]) -> list[bytes]:
    texts = [part.said[1:-1] for part in parts if part.type == "text"]
    calls = [_call(part) for part in parts if part.type == "tool_call"]
    if not texts and not calls:
        return []
    called = {"tool_calls": b"[%b]" % b",".join(calls)} if calls else {}
    return [object_of({**members, "content": b'"%b"' % b"".join(texts), **called})]


def _call(part: _Part) -> bytes:
    function = object_of({"name": bytes(part.name), "arguments": bytes(part.arguments)})
    return object_of({"id": bytes(part.id), "type": b'"function"', "function": function})


def _tool_turn(part: _Part) -> bytes:
    return object_of({"role": b'"tool"', "tool_call_id": bytes(part.id), "content": text_of(part.answer)})
