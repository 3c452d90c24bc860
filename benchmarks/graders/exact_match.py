"""Compares the last line with the expected answer."""

from gradebox import StringThread


async def grade(thread: StringThread) -> float:
    """1.0 if they are equal, else 0.0."""
    text = thread.completion() or ""
    return float(text[text.rfind("\n") + 1 :].strip().casefold() == thread.metadata["expected"])
