"""The conversation that a grader receives.

Graders import this module inside the sandbox, so it imports only the standard library. `gradebox.thread_forms` defines
and reads the JSON forms of a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gradebox.thread_forms import ROLES, AssistantTurn, ToolCall, check_role, fragments, no_constant, read, steps


class StringTurn(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str


class StringThread:
    """A conversation: its turns, and the metadata of the sample it belongs to.

    The interface is that of `adaptive_harmony.StringThread`, so that graders written for Adaptive run unchanged, plus
    `raw_messages`, `steps` and `tool_calls`. Threads are not modified: `user()` and the like return a new thread.
    """

    # Turns are stored as plain pairs: creating a named tuple takes 0.3 µs, and most graders read only the completion.
    # `_raw` is unset if the messages hold nothing but role and content, so that such threads do not pay for setting it.
    __slots__ = ("_raw", "_turns", "metadata")

    metadata: Any
    _turns: list[tuple[str, str]]
    _raw: list[dict[str, Any]]

    def __init__(self, turns: Iterable[tuple[str, str]] | None = None, metadata: Any = None) -> None:
        """Make a thread from turns: pairs of role and content.

        Raises:
            ValueError: a turn is not such a pair, or its role is unknown; the message names the turn.
        """
        self._turns = [] if turns is None else [_checked(turn, number) for number, turn in enumerate(turns)]
        self.metadata = {} if metadata is None else metadata

    @classmethod
    def with_metadata(cls, turns: Iterable[tuple[str, str]], metadata: Any) -> StringThread:
        """Make a thread of these turns with this metadata."""
        return cls(turns, metadata)

    @classmethod
    def from_messages(cls, messages: list[dict[str, Any]], metadata: dict[str, Any] | None = None) -> StringThread:
        """Make a thread from messages in the form of OpenAI's API: dicts with "role", "content" and optionally
        "tool_calls".

        Raises:
            ValueError: the messages are invalid; the message names the wrong part.
        """
        return cls.from_object({"messages": messages, "metadata": metadata})

    def get_turns(self) -> list[StringTurn]:
        """All turns, including the completion."""
        return [StringTurn(role, content) for role, content in self._turns]

    def messages(self) -> list[tuple[str, str]]:
        """The turns before the completion: all turns except a final assistant turn."""
        turns = self._turns
        return turns[:-1] if turns and turns[-1][0] == "assistant" else list(turns)

    def completion(self) -> str | None:
        """The content of the last turn if it is an assistant turn; else None."""
        turns = self._turns
        return turns[-1][1] if turns and turns[-1][0] == "assistant" else None

    def last_content(self) -> str:
        """The content of the last turn, of any role.

        Raises:
            ValueError: the thread has no turns.
        """
        if not self._turns:
            raise ValueError("the thread has no turns, so it has no last content")
        return self._turns[-1][1]

    def raw_messages(self) -> list[dict[str, Any]]:
        """Each turn's message as it was sent, with all of its fields. The list is a copy, the messages are not."""
        raw: list[dict[str, Any]] | None = getattr(self, "_raw", None)
        return list(raw) if raw is not None else [{"role": role, "content": content} for role, content in self._turns]

    @property
    def steps(self) -> list[AssistantTurn]:
        """The assistant's turns, in order, each with its tool calls."""
        return steps(self.raw_messages(), self._turns)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All tool calls, in order."""
        return [call for step in self.steps for call in step.tool_calls]

    def user(self, content: str) -> StringThread:
        """Return a new thread with a user turn appended."""
        return self._with("user", content)

    def system(self, content: str) -> StringThread:
        """Return a new thread with a system turn appended."""
        return self._with("system", content)

    def assistant(self, content: str) -> StringThread:
        """Return a new thread with an assistant turn appended."""
        return self._with("assistant", content)

    def tool(self, content: str) -> StringThread:
        """Return a new thread with a tool turn appended."""
        return self._with("tool", content)

    def _with(self, role: str, content: str) -> StringThread:
        thread = StringThread([*self._turns, (role, content)], self.metadata)
        if hasattr(self, "_raw"):
            thread._raw = [*self._raw, {"role": role, "content": content}]
        return thread

    def get_fragments(self) -> list[tuple[str, list[dict[str, str]]]]:
        """The turns as lists of fragments: text, and images as URLs."""
        return [
            (role, fragments(message.get("content"), content))
            for (role, content), message in zip(self._turns, self.raw_messages(), strict=True)
        ]

    def to_json(self) -> str:
        """Serialize this thread as `{"messages": [{"role", "content"}], "metadata"}`, the form that `from_json`
        reads."""
        import json  # imported here, because it takes 10 ms in a cold sandbox

        return json.dumps({"messages": self.raw_messages(), "metadata": self.metadata}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> StringThread:
        """Parse the output of `to_json`, or any other form of a thread in a batch.

        Raises:
            ValueError: the text is not JSON, or not a thread.
        """
        import json

        return cls.from_object(json.loads(text, parse_constant=no_constant))

    @classmethod
    def from_object(cls, value: object, keep_unknown: bool = False) -> StringThread:
        """Read `{"messages"}`, `{"turns"}` or `{"prompt", "completion"}`, each with an optional "metadata" and "id".

        Args:
            value: the parsed JSON object.
            keep_unknown: whether unknown fields become metadata; otherwise they are an error.

        Raises:
            ValueError: the value is not a thread; the message names the wrong part.
        """
        thread = cls.__new__(cls)
        thread._turns, thread.metadata, raw = read(value, keep_unknown)
        if raw is not None:
            thread._raw = raw
        return thread

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringThread):
            return NotImplemented
        return self.raw_messages() == other.raw_messages() and bool(self.metadata == other.metadata)

    __hash__ = None  # type: ignore[assignment]  # metadata is mutable

    def __repr__(self) -> str:
        return f"StringThread({self._turns!r}, metadata={self.metadata!r})"


def completion_of(thread: StringThread) -> str:
    """Return the completion. Raises ValueError if there is none."""
    completion = thread.completion()
    if completion is None:
        raise ValueError("the thread does not end with a turn of the assistant, so there is no completion to score")
    return completion


def _checked(turn: object, number: int) -> tuple[str, str]:
    if isinstance(turn, tuple | list) and len(turn) == 2:
        role, content = turn
        if isinstance(role, str) and isinstance(content, str):
            if role not in ROLES:
                check_role(role, f"turns[{number}]")
            return role, content
    if isinstance(turn, Mapping):
        raise ValueError(
            f"turns[{number}] is a dict, and StringThread takes pairs: (role, content). "
            "Use StringThread.from_messages(messages, metadata)"
        )
    raise ValueError(f"turns[{number}] must be a pair of strings, (role, content), and is {turn!r:.80}")
