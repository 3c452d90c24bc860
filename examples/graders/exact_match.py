"""1.0 if the completion is the expected answer, ignoring case, spaces and a final full stop.

Metadata: `answer`, a string.
"""

from gradebox import StringThread


def normalise(text: str) -> str:
    """Normalises case and white space, and removes a final full stop."""
    return " ".join(text.casefold().split()).removesuffix(".")


async def grade(thread: StringThread) -> float:
    """1.0 for the expected answer, else 0.0."""
    return float(normalise(thread.completion() or "") == normalise(thread.metadata["answer"]))
