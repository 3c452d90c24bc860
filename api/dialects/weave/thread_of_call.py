"""Builds a thread from a call or an agent's turn. Its parts are cut out of the request without parsing them."""

from typing import NamedTuple

import msgspec

from api.dialects.json_text import is_text, object_of, text_of
from api.dialects.message_json import are_messages, is_message
from api.dialects.weave.parts import unpacked
from api.dialects.weave.wire import TARGETS, ScoringRequest, ScoringTarget
from api.http.problems import ProblemError, invalid
from api.intake import bodies, json_cut
from gradebox.limits import REQUEST_BYTES
from gradebox.schemas import WeaveMapping

_PARTS = 10_000  # the limit of one list or object that is split
_CONTENT = ("inputs", "output", "messages")  # the members that have content; the others describe the call or turn
_SHOWN = 200  # characters of the input quoted in an error

_Members = dict[str, bytes]


class Call(NamedTuple):
    """The input of the scorer: the members of a call, or of an agent's turn."""

    members: _Members
    is_turn: bool

    def at(self, path: str) -> bytes | None:
        """The value at a path such as `output.choices.0.message`; None if there is none."""
        name, *rest = path.split(".")
        value = self.members.get(name)
        for segment in rest:
            if value is None:
                return None
            if value[:1] == b"{":
                value = _members(value, path).get(segment)
            elif value[:1] == b"[" and segment.isdecimal():
                elements = _elements(value, path)
                value = elements[int(segment)] if int(segment) < len(elements) else None
            else:
                return None
        return value

    def own(self, path: str | None) -> str | None:
        """Returns a mapping's path if it applies here: paths into `messages` are for turns, all others for calls."""
        is_of_turns = path is not None and path.partition(".")[0] == "messages"
        return path if is_of_turns == self.is_turn else None


def line_of(request: ScoringRequest, mapping: WeaveMapping, longest: int) -> bytes:
    """Returns the thread as one line of JSON. Raises ProblemError if the mapping finds no completion in the call."""
    call = _call(request)
    try:
        parts = {"completion": _completion(call, mapping), "metadata": _metadata(request, call, mapping)}
        if (prompt := _prompt(call, mapping)) is not None:
            parts["prompt"] = prompt
    except (RecursionError, UnicodeDecodeError) as error:
        raise invalid("the call is nested too deep, or is not UTF-8") from error
    return bodies.line_of(object_of(parts), longest, "the thread of this call")


def _call(request: ScoringRequest) -> Call:
    """Returns the call. Raises ProblemError if the request has none."""
    if request.schema_version == 1:
        return Call(_members(bytes(request.original_call), "original_call"), is_turn=False)
    target = bodies.parse(bytes(request.scoring_target), ScoringTarget)
    if (target.type, target.schema_version) not in TARGETS:
        known = ", ".join(f"`{kind}` of version {version}" for kind, version in TARGETS)
        raise invalid(
            f"`scoring_target` is `{target.type[:_SHOWN]}` of version {target.schema_version}, and a grader takes "
            f"{known}"
        )
    return Call(_members(bytes(target.payload), "scoring_target.payload"), target.type == "agent_turn")


def _completion(call: Call, mapping: WeaveMapping) -> bytes:
    """Returns a JSON string, or a list of messages."""
    if (path := call.own(mapping.completion)) is not None:
        mapped = _mapped(call, "completion", path)
        if is_message(mapped) or are_messages(mapped):
            return _mapped_messages(call, mapped)
        return text_of(mapped)
    if call.is_turn:
        found = _messages(_turn(call).get("output", b"null"), "assistant", "output")
        if not found:
            raise _no_completion()
        return _list(found)
    output = call.members.get("output", b"null")
    if is_text(output):
        return output
    for place in ("output.choices.0.message", "output"):  # a chat completion; a message
        message = call.at(place)
        if message is not None and message[:1] == b"{" and "role" in _members(message, place):
            return _list([message])
    raise _no_completion()


def _no_completion() -> ProblemError:
    return _unfit(
        "there is no output that is a text, a message or a chat completion: say where the completion is, as in "
        "`gradebox graders weave KEY --completion output.answer`"
    )


def _prompt(call: Call, mapping: WeaveMapping) -> bytes | None:
    """Returns a JSON string or a list of messages; None if there is no prompt."""
    if (path := call.own(mapping.prompt)) is not None:
        found = _mapped(call, "prompt", path)
        if is_message(found) or _all_have_roles(found):
            return _mapped_messages(call, found)
        return text_of(found)
    if call.is_turn:
        turn = _turn(call)
        asked = [
            *_messages(turn.get("system_instructions", b"null"), "system", "system_instructions"),
            *_messages(turn.get("input", b"null"), "user", "input"),
        ]
        return _list(asked) if asked else None
    messages = call.at("inputs.messages")
    return messages if messages is not None and _all_have_roles(messages) else None


def _metadata(request: ScoringRequest, call: Call, mapping: WeaveMapping) -> bytes:
    """Returns an object: the mapped value or else the inputs, and as `weave` the members that describe the call."""
    if (path := call.own(mapping.metadata)) is None:
        found = call.at("inputs") or b""
    elif (found := _mapped(call, "metadata", path))[:1] != b"{":
        raise _unfit(f"the grader takes its metadata from `{path}`, and there is no object there")
    about = {name: value for name, value in call.members.items() if name not in _CONTENT}
    about |= {"scorer": bytes(request.scorer), "monitor": bytes(request.monitor)}
    inputs = _members(found, "inputs") if found[:1] == b"{" else {}
    return object_of({**inputs, "weave": object_of(about)})


def _turn(call: Call) -> _Members:
    return _members(call.members.get("messages", b"null"), "scoring_target.payload.messages")


def _messages(value: bytes, role: str, where: str) -> list[bytes]:
    """Converts a value to messages: those of a list, a single one, or texts as messages in this role."""
    if value == b"null":
        return []
    if value[:1] not in (b'"', b"{", b"["):
        raise _unfit(f"`messages.{where}` is neither messages nor a text")
    found = _elements(value, where) if value[:1] == b"[" else [value]
    named = [object_of({"role": b'"%b"' % role.encode(), "content": each}) if is_text(each) else each for each in found]
    return [part for message in named for part in unpacked(message)]


def _mapped_messages(call: Call, value: bytes) -> bytes:
    """Converts a message or a list of messages to a list."""
    found = _elements(value, "messages") if value[:1] == b"[" else [value]
    return _list([part for message in found for part in unpacked(message)] if call.is_turn else found)


def _all_have_roles(value: bytes) -> bool:
    """Whether the value is a list of objects with a role."""
    if value[:1] != b"[":
        return False
    elements = _elements(value, "messages")
    return bool(elements) and all(
        element[:1] == b"{" and "role" in _members(element, "a message") for element in elements
    )


def _elements(value: bytes, where: str) -> list[bytes]:
    """Raises ProblemError if the list is too long to be split."""
    try:
        return json_cut.elements(value, _PARTS, REQUEST_BYTES)
    except json_cut.TooManyError as error:
        raise invalid(f"`{where}`: {error}, and a list that is read may have at most {_PARTS}") from error


def _members(value: bytes, where: str) -> _Members:
    """Raises ProblemError if the value is not an object, or too large to be split."""
    try:
        return json_cut.members(value, _PARTS)
    except json_cut.TooManyError as error:
        raise invalid(f"`{where}`: {error}, and an object that is read may have at most {_PARTS}") from error
    except json_cut.TwiceError as error:
        raise invalid(f"{where} has the member {str(error)[:_SHOWN]!r} twice: send it once") from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise invalid(f"{where} must be an object, and is {value[:40].decode('utf-8', 'replace')}") from error


def _list(elements: list[bytes]) -> bytes:
    return b"[%b]" % b",".join(elements)


def _mapped(call: Call, part: str, path: str) -> bytes:
    """The value at a path of the mapping. Raises ProblemError if it is missing or null."""
    found = call.at(path)
    if found is not None and found != b"null":
        return found
    root = path.partition(".")[0]
    value = call.members.get(root, b"null")
    if value[:1] == b"{":
        there = f"`{root}` has {', '.join(sorted(_members(value, root)))[:_SHOWN] or 'no members'}"
    else:
        there = f"`{root}` is {value[:40].decode('utf-8', 'replace')}"
    raise _unfit(f"the grader takes its {part} from `{path}`, and there is nothing there: {there}")


def _unfit(detail: str) -> ProblemError:
    return ProblemError(422, "not-scored", detail)
