"""How alike the completion's conclusion and the reference are."""

from difflib import SequenceMatcher

from gradebox import StringThread


async def grade(thread: StringThread) -> float:
    """From 0.0 to 1.0."""
    return SequenceMatcher(None, (thread.completion() or "")[-200:], thread.metadata["reference"]).ratio()
