"""The share of an answer's claims that the documents support. Metadata: `documents`."""

from gradebox import StringThread
from gradebox.judges import Faithfulness

judge = Faithfulness(model="small-judge")


async def grade(thread: StringThread) -> float:
    """The share; `details` has each claim with its verdict."""
    return await judge(thread)
