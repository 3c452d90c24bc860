"""Another grader of the project, which runs in a separate sandbox."""

from gradebox.asks.asking import ask, name
from gradebox.asks.endpoint import sent
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread


class Grader:
    """A grader by its key, `has-answer`, or by one of its versions, `has-answer@3`. Create it at module level.

    Without a number, the version is the newest one at the time when the version of the asking grader is created.
    """

    def __init__(self, key: str) -> None:
        """Raises ValueError if the key is invalid."""
        self.key = name("grader", key)

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread with this grader.

        Raises:
            ModelError: of kind `failed`: the grader gave no score.
            NotApplicable: the grader does not apply.
        """
        reply = await ask({"ask": "grader", "name": self.key, "thread": sent(thread)})
        if (why := reply.get("not_applicable")) is not None:
            raise NotApplicable(why)
        return Score(reply["score"], reply.get("reason"), reply.get("values"), reply.get("details"))

    def __repr__(self) -> str:
        return f"Grader({self.key!r})"
