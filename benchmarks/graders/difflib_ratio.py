"""The similarity of the end of the completion and the reference."""

from difflib import SequenceMatcher

from gradebox import StringThread


async def grade(thread: StringThread) -> float:
    """The similarity, from 0.0 to 1.0."""
    return SequenceMatcher(None, (thread.completion() or "")[-200:], thread.metadata["reference"]).ratio()
