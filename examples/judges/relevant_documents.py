"""The share of the documents that help with the question. Metadata: `documents`."""

from gradebox import StringThread
from gradebox.judges import ContextRelevancy

judge = ContextRelevancy(model="small-judge")


async def grade(thread: StringThread) -> float:
    """The share; `details` has each document with its verdict."""
    return await judge(thread)
