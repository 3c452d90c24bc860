"""The JSON forms of a thread: `{"messages"}`, `{"turns"}` or `{"prompt", "completion"}`.

This module also runs inside the sandbox, so it imports only the standard library.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

METADATA = "metadata."  # prefix of the names of metadata fields, used if they could be names of something else
ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function", "document"))
NO_CONTENT = '"content" is missing or null, which only a message with "tool_calls" may have'

_MEANT = {
    "assistant": ("ai", "bot", "chatbot", "chatgpt", "completion", "gpt", "model", "response"),
    "user": ("human", "instruction", "prompt", "question"),
    "tool": ("environment", "ipython", "observation", "tool_response", "tool_result"),
}
_FORMS = {"messages": ("messages",), "turns": ("turns",), "completion": ("prompt", "completion")}
_COMMON = frozenset(("id", "metadata"))
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_MARKS = {"image_url": "image", "input_image": "image", "image": "image", "input_audio": "audio", "file": "file"}
_PLAIN = frozenset(("role", "content"))

_Turns = list[tuple[str, str]]
_Messages = list[dict[str, Any]]


class ToolCall(NamedTuple):
    """One tool call by the assistant.

    Attributes:
        name: of the tool.
        arguments: the parsed JSON, usually a dict; the raw text if it is not JSON, or the input of a custom tool.
        result: the tool's answer, if a later message has this call's id.
        id: the call's id, if it has one.
    """

    name: str
    arguments: Any
    result: str | None = None
    id: str | None = None


class AssistantTurn(NamedTuple):
    """One turn of the assistant: its content and its tool calls."""

    content: str
    tool_calls: list[ToolCall]


def read(value: object, keep_unknown: bool = False) -> tuple[_Turns, dict[str, Any], _Messages | None]:
    """Return the turns and the metadata of a thread, and its messages if they hold more than the turns do.

    Raises:
        ValueError: the value is not a thread; the message names the wrong part and the fix.
    """
    if type(value) is not dict:
        raise ValueError(f"a thread is a JSON object, and this is {_kind(value)}")
    metadata = value.get("metadata")
    if metadata is None:
        metadata = {}
    elif type(metadata) is not dict:
        raise ValueError(f'"metadata" must be an object, and is {_kind(metadata)}')
    form = _form(value)
    unknown = [name for name in value if name not in _COMMON and name not in _FORMS[form]]
    if unknown:
        metadata = {**_kept(value, unknown, keep_unknown), **metadata}
    if form == "turns":
        return _read_pairs(value["turns"]), metadata, None
    messages = _messages(value, form)
    turns = [_turn(message, where) for message, where in messages]
    if all(_PLAIN.issuperset(message) and isinstance(message["content"], str) for message, _ in messages):
        return turns, metadata, None
    return turns, metadata, [message for message, _ in messages]


def _form(value: dict[str, Any]) -> str:
    found = [form for form in _FORMS if form in value]
    if not found and is_group(value):
        raise ValueError(
            "a thread is wanted here, and this is a group of threads, which a grader takes whose parameter is "
            "annotated `list[StringThread]`"
        )
    if not found and {"role", "content"} <= value.keys():
        raise ValueError(
            'this is one message, and a thread has all of them: {"messages": [{"role": …, "content": …}, …]}'
        )
    if not found:
        raise ValueError(
            f'a thread needs "messages", "turns" or "completion", and this object has {_names(value)}: if it is a '
            'row of a dataset, map its columns, as in columns={"response": "completion"} in Python, or --column '
            "response=completion in the shell"
        )
    others = [name for form in _FORMS if form != found[0] for name in _FORMS[form] if name in value]
    if others:
        raise ValueError(f'a thread has one form, and this has "{found[0]}" beside "{others[0]}": send one of them')
    return found[0]


def _names(value: dict[str, Any]) -> str:
    return ", ".join(map(str, value))[:200] or "no member"


def is_group(value: dict[str, Any]) -> bool:
    """Return whether an object has the fields of a group, which `gradebox.group_forms` reads."""
    return "threads" in value or "completions" in value


def _kept(value: dict[str, Any], unknown: list[str], keep: bool) -> dict[str, Any]:
    if not keep:
        name, member = unknown[0][:80], "messages" if "messages" in value else "completion"
        raise ValueError(
            f'a thread has no member "{name}": put it into "metadata", where a grader finds it as '
            f'thread.metadata["{name}"]. For rows of a dataset, columns={{}} in Python or --column {member}={member} '
            "in the shell does so"
        )
    return {name: value[name] for name in unknown}


def _messages(value: dict[str, Any], form: str) -> list[tuple[dict[str, Any], str]]:
    """Each message, and its position as text."""
    if form == "messages":
        return _listed(value["messages"], '"messages"')
    prompt, completion = value.get("prompt"), value["completion"]
    asked = [] if prompt is None else _said(prompt, "user", '"prompt"')
    return asked + _said(completion, "assistant", '"completion"')


def _said(value: object, role: str, where: str) -> list[tuple[dict[str, Any], str]]:
    if isinstance(value, str):
        return [({"role": role, "content": value}, where)]
    if type(value) is not list:
        raise ValueError(f"{where} must be text or a list of messages, and is {_kind(value)}")
    return _listed(value, where)


def _listed(messages: object, where: str) -> list[tuple[dict[str, Any], str]]:
    if type(messages) is not list:
        raise ValueError(f"{where} must be a list, and is {_kind(messages)}")
    listed = []
    for number, message in enumerate(messages):
        if isinstance(message, str) and where == '"completion"':
            raise ValueError(
                f'{where}[{number}] is text: send one completion as {where}: "…", and each in its own line'
            )
        if type(message) is not dict or not isinstance(message.get("role"), str):
            shares = type(message) is dict and {"from", "value"} <= message.keys()
            advice = ': write {"role": "user", "content": …} for {"from": "human", "value": …}' if shares else ""
            raise ValueError(f'{where}[{number}] must be an object with "role" and "content"{advice}')
        listed.append((message, f"{where}[{number}]"))
    return listed


def _turn(message: dict[str, Any], where: str) -> tuple[str, str]:
    role, content = message["role"], message.get("content")
    check_role(role, where)
    if isinstance(content, str):
        return role, content
    if type(content) is list:
        return role, "".join(_part(part, f'{where}: "content"[{number}]') for number, part in enumerate(content))
    if content is None and (message.get("tool_calls") or message.get("function_call")):
        return role, ""
    if content is None and isinstance(refusal := message.get("refusal"), str):
        return role, refusal
    if content is None:
        raise ValueError(f"{where}: {NO_CONTENT}")
    raise ValueError(f'{where}: "content" must be a string or a list of parts, and is {_kind(content)}')


def _part(part: object, where: str) -> str:
    """A part of a message as text; a part that is not text becomes a mark, as in Adaptive's threads."""
    if isinstance(part, str):
        return part
    if type(part) is not dict or not isinstance(kind := part.get("type"), str):
        lacks = 'has no "type" of text' if type(part) is dict else f"is {_kind(part)}"
        raise ValueError(f'{where} must be a part such as {{"type": "text", "text": …}}, and {lacks}')
    if kind in _MARKS:
        return f"<|{_MARKS[kind]}|>"
    if kind not in _TEXTS:
        raise ValueError(
            f"{where} is of the type {kind[:40]!r}, which is not read: leave it out, or write it as text. The types "
            f"are {', '.join((*_TEXTS, *_MARKS))}"
        )
    if not isinstance(text := part.get(_TEXTS[kind]), str):
        raise ValueError(f'{where}: "{_TEXTS[kind]}" must be a string, and is {_kind(text)}')
    return text


def check_role(role: str, where: str) -> None:
    """Raise ValueError if the role is unknown; the message suggests the right one."""
    if role in ROLES:
        return
    meant = next((known for known, others in _MEANT.items() if role.lower() in others), role.strip().lower())
    advice = f"write {meant!r}" if meant in ROLES else f"roles are {', '.join(sorted(ROLES))}"
    raise ValueError(f"{where}: the role {role[:40]!r} is unknown: {advice}")


def _read_pairs(pairs: object) -> _Turns:
    if type(pairs) is not list:
        raise ValueError(f'"turns" must be a list, and is {_kind(pairs)}')
    for number, pair in enumerate(pairs):
        if type(pair) is not list or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            elsewhere = '; messages with "role" and "content" belong in "messages"' if type(pair) is dict else ""
            raise ValueError(f'"turns"[{number}] must be a pair of strings: [role, content]{elsewhere}')
        check_role(pair[0], f'"turns"[{number}]')
    return [(role, content) for role, content in pairs]


def fragments(content: object, text: str) -> list[dict[str, str]]:
    """The parts of a message's content: text, and images as URLs."""
    if type(content) is not list:
        return [{"type": "text", "text": text}]
    found = []
    for part in content:
        image = part.get("image_url") if type(part) is dict else None
        url = image.get("url") if type(image) is dict else image
        if type(url) is str:
            found.append({"type": "image", "url": url})
        else:
            found.append({"type": "text", "text": _part(part, "content")})
    return found


def steps(messages: _Messages, turns: _Turns) -> list[AssistantTurn]:
    """The assistant's turns with their tool calls and the tools' results.

    Some models give calls of different turns the same id. A result belongs to the latest call with its id that has
    none; within a turn, to the first.
    """
    found: list[AssistantTurn] = []
    waiting: dict[str, list[tuple[list[ToolCall], int]]] = {}  # by id: the calls without a result, the next one last
    for message, (role, content) in zip(messages, turns, strict=True):
        if role == "assistant":
            calls = [_call(call) for call in _calls(message)]
            found.append(AssistantTurn(content, calls))
            for number in reversed(range(len(calls))):
                if (identity := calls[number].id) is not None:
                    waiting.setdefault(identity, []).append((calls, number))
        elif role == "tool" and type(answered := message.get("tool_call_id")) is str and waiting.get(answered):
            calls, number = waiting[answered].pop()
            calls[number] = calls[number]._replace(result=content)
    return found


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if calls is None and message.get("function_call") is not None:
        calls = [{"function": message["function_call"]}]  # the older form of tool calls
    return [call for call in calls if type(call) is dict] if type(calls) is list else []


def _call(call: dict[str, Any]) -> ToolCall:
    function, custom, identity = call.get("function"), call.get("custom"), call.get("id")
    called = function if type(function) is dict else custom if type(custom) is dict else call
    arguments = called.get("arguments")
    if called is custom:
        arguments = called.get("input")  # a text in the tool's own language
    elif type(arguments) is str:
        import json

        with suppress(ValueError):  # not JSON: the grader gets the raw text
            arguments = json.loads(arguments)
    return ToolCall(str(called.get("name", "")), arguments, id=identity if type(identity) is str else None)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    names |= dict.fromkeys((int, float), "a number")
    return names.get(type(value)) or f"of the type {type(value).__name__}"


def no_constant(name: str) -> Any:
    """Raises ValueError for `NaN` and the infinities, which Python's JSON parser takes by default."""
    raise ValueError(f"{name} is no JSON: send null, or a number that is finite")
