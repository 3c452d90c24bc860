"""Makes a thread of a call or of an agent's turn. Its parts are cut out of what was sent, and not parsed."""

import msgspec

from api.dialects.weave.wire import Request, Target
from api.http.problems import ProblemError, invalid
from api.intake import bodies, json_cut
from gradebox.limits import REQUEST_BYTES
from gradebox.schemas import WeaveMapping

_ELEMENTS = 10_000  # of one list that is looked into
_CONTENT = ("inputs", "output", "messages")  # the members of a call or a turn that are not what it is called by
_TOLD = 200  # characters of what was sent, in an error


def line_of(request: Request, mapping: WeaveMapping, longest: int) -> bytes:
    """The thread as one line of JSON. Raises ProblemError where the mapping finds no completion in the call."""
    kind, call = _target(request)
    is_turn = kind == "agent_turn"
    parts = {"completion": _completion(call, mapping, is_turn), "metadata": _metadata(request, call, mapping)}
    if (prompt := _prompt(call, mapping, is_turn)) is not None:
        parts["prompt"] = prompt
    return bodies.line_of(_object(parts), longest, "the thread of this call")


def _target(request: Request) -> tuple[str, dict[str, bytes]]:
    """What is to be scored, and its members. Raises ProblemError where it is not there."""
    if request.schema_version == 1:
        return "call", _members(bytes(request.original_call), "original_call")
    target = bodies.parse(bytes(request.scoring_target), Target)
    return target.type, _members(bytes(target.payload), "scoring_target.payload")


def _completion(call: dict[str, bytes], mapping: WeaveMapping, is_turn: bool) -> bytes:
    """A JSON string, or a list of messages."""
    if mapping.completion is not None:
        found = _at(call, mapping.completion)
        if found is None or found == b"null":
            raise _missing("completion", mapping.completion, call)
        return found if _is_text(found) else _text(found)
    if is_turn:
        return _messages(_turn(call).get("output", b"null"), "assistant") or _no_completion()
    output = call.get("output", b"null")
    if _is_text(output):
        return output
    for path in ("output.choices.0.message", "output"):  # a chat completion; a message
        found = _at(call, path)
        if found is not None and found[:1] == b"{" and "role" in _members(found, path):
            return b"[%b]" % found
    return _no_completion()


def _no_completion() -> bytes:
    raise _unfit(
        "the call has no output that is a text, a message or a chat completion: say where the completion is, as in "
        "`gradebox graders weave KEY --completion output.answer`"
    )


def _prompt(call: dict[str, bytes], mapping: WeaveMapping, is_turn: bool) -> bytes | None:
    """A JSON string or a list of messages; None where there is none."""
    if mapping.prompt is not None:
        found = _at(call, mapping.prompt)
        if found is None or found == b"null":
            raise _missing("prompt", mapping.prompt, call)
        return found if found[:1] in (b'"', b"[") else _text(found)
    if is_turn:
        turn = _turn(call)
        system = _messages(turn.get("system_instructions", b"null"), "system")
        asked = _messages(turn.get("input", b"null"), "user")
        joined = [part[1:-1] for part in (system, asked) if part is not None]
        return b"[%b]" % b",".join(joined) if joined else None
    found = _at(call, "inputs.messages")
    return found if found is not None and found[:1] == b"[" else None


def _metadata(request: Request, call: dict[str, bytes], mapping: WeaveMapping) -> bytes:
    """An object: what the mapping names, or the inputs; and what the call is called by, as `weave`."""
    found = _at(call, mapping.metadata or "inputs")
    if mapping.metadata is not None and (found is None or found[:1] != b"{"):
        raise _missing("metadata", mapping.metadata, call, "no object")
    about = {name: value for name, value in call.items() if name not in _CONTENT}
    about |= {"scorer": bytes(request.scorer), "monitor": bytes(request.monitor)}
    inputs = _members(found, "inputs") if found is not None and found[:1] == b"{" else {}
    return _object({**inputs, "weave": _object(about)})


def _turn(call: dict[str, bytes]) -> dict[str, bytes]:
    return _members(call.get("messages", b"null"), "scoring_target.payload.messages")


def _messages(value: bytes, role: str) -> bytes | None:
    """A list of messages: that it is, or one of a text in this role. None where there is none."""
    if value in (b"null", b"[]", b'""'):
        return None
    return b'[{"role":"%b","content":%b}]' % (role.encode(), value) if _is_text(value) else value


def _at(call: dict[str, bytes], path: str) -> bytes | None:
    """The value at a path such as `output.choices.0.message`; None where there is none."""
    name, *rest = path.split(".")
    value = call.get(name)
    for segment in rest:
        if value is None:
            return None
        if value[:1] == b"{":
            value = _members(value, path).get(segment)
        elif value[:1] == b"[" and segment.isdecimal():
            value = _element(value, int(segment), path)
        else:
            return None
    return value


def _members(value: bytes, where: str) -> dict[str, bytes]:
    """Raises ProblemError where it is no object."""
    try:
        return json_cut.members(value)
    except json_cut.TwiceError as error:
        raise invalid(f"{where} has the member {str(error)[:_TOLD]!r} twice: send it once") from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise invalid(f"{where} must be an object, and is {value[:40].decode('utf-8', 'replace')}") from error


def _element(value: bytes, position: int, where: str) -> bytes | None:
    """Raises ProblemError where the list is too long to be looked into."""
    try:
        elements = json_cut.elements(value, _ELEMENTS, REQUEST_BYTES)
    except json_cut.TooManyError as error:
        raise invalid(f"of `{where}`, {error}, and a list that is looked into may have {_ELEMENTS}") from error
    return elements[position] if position < len(elements) else None


def _object(members: dict[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(name), value) for name, value in members.items())


def _is_text(value: bytes) -> bool:
    return value[:1] == b'"'


def _text(value: bytes) -> bytes:
    """What is no text, as the text of its JSON."""
    return msgspec.json.encode(value.decode("utf-8", "replace"))


def _missing(part: str, path: str, call: dict[str, bytes], what: str = "nothing") -> ProblemError:
    root = path.partition(".")[0]
    found = call.get(root)
    if found is not None and found[:1] == b"{":
        there = f"`{root}` has {', '.join(sorted(_members(found, root)))[:_TOLD] or 'no members'}"
    else:
        there = f"the call has {', '.join(sorted(call))[:_TOLD]}"
    return _unfit(f"the grader takes its {part} from `{path}`, and there is {what} there: {there}")


def _unfit(detail: str) -> ProblemError:
    return ProblemError(422, "not-scored", detail)
