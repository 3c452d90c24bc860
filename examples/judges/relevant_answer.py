"""The share of an answer's statements that help with the question."""

from gradebox import StringThread
from gradebox.judges import AnswerRelevancy

judge = AnswerRelevancy(model="small-judge")


async def grade(thread: StringThread) -> float:
    """The share; `details` has each statement with its verdict."""
    return await judge(thread)
