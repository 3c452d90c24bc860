"""Right when the completion is the expected answer, but for case, spaces and a full stop.

Metadata: `answer`, a string.
"""

from gradebox import StringThread


def normalise(text: str) -> str:
    """The text without what should make no difference."""
    return " ".join(text.casefold().split()).removesuffix(".")


async def grade(thread: StringThread) -> float:
    """1.0 for the expected answer, else 0.0."""
    return float(normalise(thread.completion() or "") == normalise(thread.metadata["answer"]))
