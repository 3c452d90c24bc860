"""A reward server of the project."""

from typing import Any

from gradebox.asks.asking import ask, name
from gradebox.score import Score
from gradebox.thread import StringThread


class Endpoint:
    """An endpoint by its key. Create it at module level."""

    def __init__(self, key: str) -> None:
        """Raises ValueError if the key is invalid."""
        self.key = name("endpoint", key)

    async def score(self, thread: StringThread) -> Score:
        """Score a thread: the server's `reward`, with `metadata.reason` as the reason and `metadata` as details.

        Raises:
            ModelError: the server does not answer, or not with a reward.
        """
        reply = await ask({"ask": "endpoint", "name": self.key, "thread": sent(thread)})
        metadata: dict[str, Any] = reply.get("metadata") or {}
        reason = metadata.get("reason")
        return Score(reply["reward"], reason if isinstance(reason, str) else None, details=metadata or None)

    def __repr__(self) -> str:
        return f"Endpoint({self.key!r})"


def sent(thread: StringThread) -> dict[str, Any]:
    """A thread in the form in which it is sent."""
    return {"messages": thread.raw_messages(), "metadata": thread.metadata}
