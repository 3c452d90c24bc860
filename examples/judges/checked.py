"""Checks of the answer and of what an agent did, each with a reason. No model."""

from gradebox import StringThread
from gradebox.checks import max_words, not_called, not_contains, run_all

CHECKS = [max_words(50), not_contains("as an AI", ignore_case=True), not_called("delete_account")]


async def grade(thread: StringThread) -> float:
    """1.0 if all pass; `details` has each of them."""
    return run_all(CHECKS, thread)
