"""The conversation that a grader is given.

Graders see this class inside the sandbox, so this module imports nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class StringTurn(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str


class StringThread:
    """A conversation: its turns, and the metadata of the sample it belongs to.

    The surface is that of `adaptive_harmony.StringThread`, so that graders written for Adaptive run unchanged.
    Threads are values: `user()`, `assistant()` and the like return a new thread.
    """

    # Turns are kept as plain pairs: a named tuple costs 0.3 µs to make, and most graders look at the completion alone.
    __slots__ = ("_turns", "metadata")

    metadata: Any
    _turns: list[tuple[str, str]]

    def __init__(self, turns: Iterable[tuple[str, str]] | None = None, metadata: Any = None) -> None:
        self._turns = [(role, content) for role, content in turns] if turns is not None else []
        self.metadata = {} if metadata is None else metadata

    @classmethod
    def with_metadata(cls, turns: Iterable[tuple[str, str]], metadata: Any) -> StringThread:
        """A thread of these turns with this metadata."""
        return cls(turns, metadata)

    def get_turns(self) -> list[StringTurn]:
        """All turns, the completion too."""
        return [StringTurn(role, content) for role, content in self._turns]

    def messages(self) -> list[tuple[str, str]]:
        """The turns before the completion: all but a last assistant turn."""
        turns = self._turns
        return turns[:-1] if turns and turns[-1][0] == "assistant" else list(turns)

    def completion(self) -> str | None:
        """What the last turn says, when the assistant says it; else None."""
        turns = self._turns
        return turns[-1][1] if turns and turns[-1][0] == "assistant" else None

    def last_content(self) -> str:
        """What the last turn says, whoever says it.

        Raises:
            ValueError: the thread has no turns.
        """
        if not self._turns:
            raise ValueError("the thread has no turns, so it has no last content")
        return self._turns[-1][1]

    def user(self, content: str) -> StringThread:
        """A new thread with a user turn at its end."""
        return self._with("user", content)

    def system(self, content: str) -> StringThread:
        """A new thread with a system turn at its end."""
        return self._with("system", content)

    def assistant(self, content: str) -> StringThread:
        """A new thread with an assistant turn at its end."""
        return self._with("assistant", content)

    def tool(self, content: str) -> StringThread:
        """A new thread with a tool turn at its end."""
        return self._with("tool", content)

    def _with(self, role: str, content: str) -> StringThread:
        return StringThread([*self._turns, (role, content)], self.metadata)

    def get_fragments(self) -> list[tuple[str, list[dict[str, str]]]]:
        """The turns as lists of fragments; gradebox's threads hold text alone."""
        return [(role, [{"type": "text", "text": content}]) for role, content in self._turns]

    def to_json(self) -> str:
        """This thread as `{"messages": [{"role", "content"}], "metadata"}`, the form that `from_json` reads."""
        import json  # here, because it costs a cold sandbox 10 ms

        messages = [{"role": role, "content": content} for role, content in self._turns]
        return json.dumps({"messages": messages, "metadata": self.metadata}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> StringThread:
        """The thread that `to_json` wrote, or any other form that a batch may hold.

        Raises:
            ValueError: the text is no JSON, or no thread.
        """
        import json

        return cls.from_object(json.loads(text))

    @classmethod
    def from_object(cls, value: object) -> StringThread:
        """Reads `{"messages"}`, `{"turns"}` or `{"prompt", "completion"}`, each with an optional "metadata".

        Raises:
            ValueError: the value is no thread; the message says which part is wrong.
        """
        if type(value) is not dict:
            raise ValueError(f"a thread is a JSON object, and this is {_kind(value)}")
        metadata = value.get("metadata")
        if metadata is not None and type(metadata) is not dict:
            raise ValueError(f'"metadata" must be an object, and is {_kind(metadata)}')
        thread = cls.__new__(cls)
        thread._turns = _turns(value)
        thread.metadata = {} if metadata is None else metadata
        return thread

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringThread):
            return NotImplemented
        return self._turns == other._turns and bool(self.metadata == other.metadata)

    __hash__ = None  # type: ignore[assignment]  # metadata can be changed

    def __repr__(self) -> str:
        return f"StringThread({self._turns!r}, metadata={self.metadata!r})"


def _turns(value: Mapping[str, object]) -> list[tuple[str, str]]:
    if "messages" in value:
        return _read_messages(value["messages"], '"messages"')
    if "turns" in value:
        return _read_pairs(value["turns"])
    if "completion" in value:
        return [*_read_prompt(value.get("prompt")), *_read_completion(value["completion"])]
    raise ValueError('a thread needs "messages", "turns" or "completion", and this object has none of them')


def _read_messages(messages: object, where: str) -> list[tuple[str, str]]:
    if type(messages) is not list:
        raise ValueError(f"{where} must be a list, and is {_kind(messages)}")
    turns: list[tuple[str, str]] = []
    for message in messages:
        try:
            role, content = message["role"], message["content"]
        except (TypeError, KeyError):
            raise ValueError(f'{where}[{len(turns)}] must be an object with "role" and "content"') from None
        if type(role) is not str or type(content) is not str:
            raise ValueError(f'{where}[{len(turns)}]: "role" and "content" must be strings')
        turns.append((role, content))
    return turns


def _read_pairs(pairs: object) -> list[tuple[str, str]]:
    if type(pairs) is not list:
        raise ValueError(f'"turns" must be a list, and is {_kind(pairs)}')
    for number, pair in enumerate(pairs):
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str or type(pair[1]) is not str:
            raise ValueError(f'"turns"[{number}] must be a pair of strings: [role, content]')
    return [(role, content) for role, content in pairs]


def _read_prompt(prompt: object) -> list[tuple[str, str]]:
    if prompt is None:
        return []
    if type(prompt) is str:
        return [("user", prompt)]
    return _read_messages(prompt, '"prompt"')


def _read_completion(completion: object) -> list[tuple[str, str]]:
    if type(completion) is str:
        return [("assistant", completion)]
    return _read_messages(completion, '"completion"')


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
