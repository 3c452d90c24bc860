"""Another grader of the project, which grades in a sandbox of its own."""

from gradebox.asks.asking import ask, name
from gradebox.asks.endpoint import sent
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread


class Grader:
    """A grader by its key, `has-answer`, or by a version of it, `has-answer@3`. Make it at module level.

    Without a number it is the version that is newest when the version of the grader that asks is made.
    """

    def __init__(self, key: str) -> None:
        """Raises ValueError for what is no key."""
        self.key = name("grader", key)

    async def __call__(self, thread: StringThread) -> Score:
        """Its score of a thread.

        Raises:
            ModelError: of kind `failed`, it has none.
            NotApplicable: it says that it does not apply.
        """
        reply = await ask({"ask": "grader", "name": self.key, "thread": sent(thread)})
        if (why := reply.get("not_applicable")) is not None:
            raise NotApplicable(why)
        return Score(reply["score"], reply.get("reason"), reply.get("values"), reply.get("details"))

    def __repr__(self) -> str:
        return f"Grader({self.key!r})"
