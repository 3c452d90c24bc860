"""1.0 if the completion is the expected answer, ignoring case, spaces and a final full stop.

Metadata: `answer`, a string.
"""

from gradebox import StringThread


def normalise(text: str) -> str:
    """Ignores case, white space and a full stop at the end."""
    return " ".join(text.casefold().split()).removesuffix(".")


async def grade(thread: StringThread) -> float:
    """1.0 for the expected answer, else 0.0."""
    return float(normalise(thread.completion() or "") == normalise(thread.metadata["answer"]))
